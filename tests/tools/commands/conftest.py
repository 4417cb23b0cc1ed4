from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

import pytest

from tests.support import forks
from tools import state
from tools.state import StateFolder

GATEHOUSE = str(Path(sys.executable).with_name("gatehouse"))


class Command(Protocol):
    def __call__(
        self, *arguments: str | Path, text: str = "", cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GATEHOUSE_")}


@pytest.fixture
def gatehouse(environment: dict[str, str], tmp_path: Path) -> Command:
    def run(
        *arguments: str | Path, text: str = "", cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return forks.run(
            [str(each) for each in arguments],
            environment=environment | variables,
            text=text,
            cwd=cwd or tmp_path,
            timeout=60,
        )

    return run


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    """A state folder with all of its files and no database, for what talks to a server."""
    made = StateFolder(tmp_path / "state")
    state.make_folder(made)
    state.make_files(made, {})
    state.make_settings(made)
    return made


@dataclass
class Seen:
    """A request as the stand-in got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class StandIn:
    """A server that answers every request alike, for answers that the real one never gives.

    Where there is anything in `then`, each request but the first takes its body from there until that is over.
    """

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"
    then: list[bytes] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    served = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if served.seen and served.then:
                served.body = served.then.pop(0)
            served.seen.append(Seen(self.command, self.path, dict(self.headers), body))
            self.send_response(served.status)
            for name, value in served.headers.items():
                self.send_header(name, value)
            if served.status != 204:
                self.send_header("Content-Length", str(len(served.body)))
            self.end_headers()
            if served.status != 204:
                self.wfile.write(served.body)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - http.server asks for these names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    yield served
    server.shutdown()
    thread.join()
    server.server_close()
