"""The programs that are measured: Gatehouse on a state folder of its own, and its peers on uvicorn."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from tools.bench.servers import HOST, BenchError, Program, free_port
from tools.settings import ListenerName

PEERS: Final = ("fastapi", "limit")

_COMMAND: Final = str(Path(sys.executable).with_name("gatehouse"))


def gatehouse(
    folder: Path,
    listener: ListenerName,
    *,
    tls: bool = False,
    settings: Mapping[str, object] | None = None,
    workflow: Mapping[str, object] | None = None,
) -> Program:
    """One of Gatehouse's listeners, with the control listener beside it, on a folder as `gatehouse init` makes it.

    `settings` replace those of the file that have their names, and `workflow` the demo's.
    """
    _run([_COMMAND, "init", "--state", str(folder)])
    file = folder / "gatehouse.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | dict(settings or {})))
    if workflow is not None:
        _apply(folder, workflow)
    ports = {name: free_port() for name in {"control", listener}}
    return Program(
        name="gatehouse",
        command=[_COMMAND, "serve", "--state", str(folder), *(f"--listener={name}" for name in ports)],
        environment={f"GATEHOUSE_{name.upper()}_BIND": f"{HOST}:{port}" for name, port in ports.items()},
        port=ports[listener],
        folder=folder,
        database=folder / "gatehouse.db",
        tls=tls,
    )


def peer(
    name: str, application: str, folder: Path, environment: Mapping[str, str], tls: Sequence[str] | None = None
) -> Program:
    """A peer's application on uvicorn with uvloop and httptools, and with an empty database.

    `tls` are uvicorn's options for TLS, and for a protocol that knows of it; None for plain HTTP.
    """
    folder.mkdir(exist_ok=True)
    port = free_port()
    database = folder / "peer.db"
    return Program(
        name=name,
        command=[
            *(sys.executable, "-m", "uvicorn", f"tools.bench.peers.{name}_{application}:app"),
            *(f"--host={HOST}", f"--port={port}", "--loop=uvloop", "--no-access-log", "--no-proxy-headers"),
            *("--log-level=warning", "--lifespan=on", *(tls or ["--http=httptools"])),
        ],
        environment={"BENCH_DATABASE": str(database), **environment},
        port=port,
        folder=folder,
        database=database,
        tls=tls is not None,
    )


def _apply(folder: Path, workflow: Mapping[str, object]) -> None:
    package = folder / "package"
    package.mkdir()
    (package / "workflow.yaml").write_text(yaml.safe_dump(dict(workflow)))
    _run([_COMMAND, "workflows", "apply", str(package), "--state", str(folder)])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own commands
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
