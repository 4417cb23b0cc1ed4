"""`gatehouse install`: configures a machine, starts its install and follows it, by whoever has its install code."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer
from cryptography import x509
from rich.console import Console
from rich.table import Table

from tools.commands.client import Client, ConfidentialUrlOption, refusal
from tools.commands.folder import address, opened, told
from tools.commands.terminal import (
    REFUSED,
    STOPPING,
    ConfigOption,
    Machine,
    RefusedError,
    StateOption,
    StoppedError,
    emit,
    group,
    plain,
)
from tools.joiner.pin import trusting
from tools.state import DEFAULT_FOLDER, StateFolder
from tools.watcher import view
from tools.watcher.follower import INSTALL, Follower

app = group()
config_app = group()
app.add_typer(config_app, name="config")

CONFIG: Final = "/v1/installer/config"
JSON: Final = "application/json"
YAML: Final = "application/yaml"
CODE_VARIABLE: Final = "GATEHOUSE_INSTALL_CODE"


def _sendable(code: str | None) -> str | None:
    code = None if code is None else code.strip()
    if code is not None and not (code and code.isascii() and code.isprintable()):
        raise typer.BadParameter("is no install code")
    return code


CodeOption = Annotated[
    str | None,
    typer.Option(
        "--code",
        envvar=CODE_VARIABLE,
        show_envvar=True,
        callback=_sendable,
        help="The install code, where not the one of the state folder. On a command line everybody on this machine can "
        "read it.",
    ),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option(
        "--ca", metavar="FILE", help="The machine's own authority, where not the state folder's ca/ca.pem, in PEM."
    ),
]
AfterOption = Annotated[int, typer.Option(min=0, max=2**63 - 1, metavar="ID", help="Only events after this one.")]


@app.callback()
def install() -> None:
    """Configure a machine, start its install and follow it, with its install code."""


@config_app.callback()
def config() -> None:
    """Store and show what the machine is to become."""


@config_app.command()
def put(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A node.yaml, or .json; - is standard input, as YAML.")],
    *,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: ConfidentialUrlOption = None,
    code: CodeOption = None,
    ca: AuthorityOption = None,
    machine: Machine = False,
) -> None:
    """Store a config in place of the one before; everything that is wrong with it is told at its place."""
    content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    kind = JSON if file.suffix == ".json" else YAML
    with _client(state, config, url, code, ca) as client:
        answer = client.send("PUT", CONFIG, content=content, headers={"Content-Type": kind})
        if not answer.is_success:
            raise refusal(answer)
        value = client.ask("GET", CONFIG) if machine else None
    emit(machine, value, lambda console: console.print("the config is stored"))


@config_app.command("get")
def get_config(
    *,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: ConfidentialUrlOption = None,
    code: CodeOption = None,
    ca: AuthorityOption = None,
    machine: Machine = False,
) -> None:
    """Show the config that is stored: as YAML, or as JSON with --json."""
    with _client(state, config, url, code, ca) as client:
        if machine:
            emit(machine, client.ask("GET", CONFIG), lambda _: None)
            return
        answer = client.send("GET", CONFIG, headers={"Accept": YAML})
    if not answer.is_success:
        raise refusal(answer)
    typer.echo(plain(answer.text) if sys.stdout.isatty() else answer.content, nl=False)


@app.command()
def start(
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on as `install watch` does, from this attempt on.")
    ] = False,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: ConfidentialUrlOption = None,
    code: CodeOption = None,
    ca: AuthorityOption = None,
    machine: Machine = False,
) -> None:
    """Start an attempt to install the machine as it is configured."""
    with _client(state, config, url, code, ca) as client:
        attempt = client.ask("POST", INSTALL)
        if watch:
            _watch(client, attempt["lastEventId"], machine)
        else:
            emit(machine, attempt, lambda console: console.print(f"attempt {attempt['attempt']} has begun"))


# Without line breaks, which would be shown as they are.
WATCH_HELP: Final = (
    "Follow the install, from its first event on, to the end of the newest attempt; with --json each event is one "
    "line.\n\n"
    "A connection that is lost is made again, and no event is missed or told twice. Exit codes: 0 the attempt "
    "succeeded, 1 it failed, 3 there is no server to begin with."
)


@app.command("watch", help=WATCH_HELP)
def watch_install(
    *,
    after: AfterOption = 0,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: ConfidentialUrlOption = None,
    code: CodeOption = None,
    ca: AuthorityOption = None,
    machine: Machine = False,
) -> None:
    """Follow the install to the end of the newest attempt; with --json each event is one line."""
    with _client(state, config, url, code, ca) as client:
        _watch(client, after, machine)


@app.command()
def show(
    *,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: ConfidentialUrlOption = None,
    code: CodeOption = None,
    ca: AuthorityOption = None,
    machine: Machine = False,
) -> None:
    """Show the latest attempt and its steps."""
    with _client(state, config, url, code, ca) as client:
        answer = client.ask("GET", INSTALL)
    emit(machine, answer, lambda console: _attempt(console, answer))


def _watch(client: Client, after: int, machine: bool) -> None:
    with _stoppable(), view.opened(machine) as shown:
        succeeded = Follower(client, shown, after).run()
    if not succeeded:
        raise typer.Exit(REFUSED)


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Let signals end what is done here as a fault does, which leaves the terminal as it was."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the shape of a signal handler
        raise StoppedError("stopped; the install goes on, and `gatehouse install watch` shows it again")

    before = {number: signal.signal(number, stop) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _client(state: Path, config: Path | None, url: str | None, code: str | None, ca: Path | None) -> Client:
    """Make the client of an installer; the state folder is looked at for what the options leave out alone."""
    folder = StateFolder(state)
    if url is None:
        folder, settings = opened(state, config)
        url = address(folder, settings, "installer")
    if code is None:
        with told():
            code = folder.read_secret(_there(folder.install_code, "--code"))
    return Client(url, code, trusting(_authority(ca or _there(folder.authority_certificate, "--ca"))))


def _there(file: Path, option: str) -> Path:
    """Return a file of the state folder; RefusedError names the option that stands in for one that is missing."""
    if not file.exists():
        raise RefusedError(f"{file} is not there; {option} stands in for it")
    return file


def _authority(file: Path) -> str:
    """Read the one certificate of an authority; host names are not compared, so that a bundle would let in anybody."""
    pem = file.read_bytes()
    try:
        (_,) = x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise RefusedError(f"{file} is not one certificate in PEM") from None
    return pem.decode("ascii", "replace")


def _attempt(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["attempt"]:
        console.print("no attempt yet")
        return
    detail = f" ({plain(answer['detail'])})" if answer["detail"] else ""
    console.print(f"attempt {answer['attempt']}: {plain(answer['state'])}{detail}")
    table = Table("step", "status", "started", "ended", box=None)
    for step in answer["steps"]:
        table.add_row(*(plain(step[name] or "-") for name in ("name", "status", "startedAt", "endedAt")))
    console.print(table)
