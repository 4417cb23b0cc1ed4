"""`gatehouse serve`: makes the state folder where it is missing, takes its locks and addresses, and runs the server."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from handlers.coordinator.sources import Sources
from handlers.gateway.server import bind
from tools import server
from tools.commands import database, demo
from tools.commands.folder import private_files, settings_of, told, url
from tools.commands.init import prepare
from tools.commands.terminal import ConfigOption, Machine, RefusedError, StateOption, emit, group
from tools.settings import ListenerName, Settings
from tools.state import DEFAULT_FOLDER, Lock, StateFolder, hold, make_folder

app = group()

LISTENERS: Final[tuple[ListenerName, ...]] = ("control", "installer", "join")


def _known(names: list[str] | None) -> list[str] | None:
    if set(names or ()) - set(LISTENERS):
        raise typer.BadParameter(f"must be one of {', '.join(LISTENERS)}")
    return names


# A changed key counts from the next request on that does not come in the very same instant.
KEYS_LOOKED_AT_EVERY_SECONDS: Final = 0.005

ListenerOption = Annotated[
    list[str] | None,
    typer.Option("--listener", metavar="NAME", callback=_known, help="Serve this one; repeatable. By default all."),
]


@app.command()
def serve(
    *,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    listener: ListenerOption = None,
    recovery_only: Annotated[
        bool, typer.Option("--recovery-only", help="Find what was admitted before; admit nothing new.")
    ] = False,
    demo_receiver: Annotated[bool, typer.Option("--demo-receiver", help="Run the demo's receiver beside it.")] = False,
    machine: Machine = False,
) -> None:
    """Serve the listeners of a state folder until SIGTERM or SIGINT; a folder that is missing is made."""
    folder = StateFolder(state)
    settings = settings_of(folder, config)
    with told(), private_files(), contextlib.ExitStack() as held:
        make_folder(folder)
        names = [name for name in LISTENERS if name in (listener or LISTENERS)]
        locks = {name: held.enter_context(_locked(folder, name)) for name in names}
        _make_ready(folder, settings, config)
        sockets = {name: held.enter_context(_bound(settings, name)) for name in names}

        def ready() -> None:
            urls: dict[ListenerName, str] = {
                name: url(*opened.getsockname()[:2], tls=settings.tls(name)) for name, opened in sockets.items()
            }
            for name, lock in locks.items():
                lock.note(f"{urls[name]}\n")
            _announce(folder, urls, machine)
            if demo_receiver:
                held.enter_context(demo.beside(settings, machine=machine))

        sources = Sources(
            lambda: settings_of(folder, config).events,
            config or folder.settings_file,
            looks_every_seconds=KEYS_LOOKED_AT_EVERY_SECONDS,
        )
        # What has been admitted waits where nobody admits.
        executes = settings.execution.enabled and "control" in names and not recovery_only
        with database.told():
            server.run(
                settings,
                folder,
                sockets,
                sources,
                recovery_only=recovery_only,
                executor=_executor(folder, config) if executes else None,
                ready=ready,
            )


def _make_ready(folder: StateFolder, settings: Settings, config: Path | None) -> None:
    """Make or migrate what has to be, in a process of its own: Alembic would cost the server 11 MB for all its life."""
    child = os.fork()
    if child == 0:
        _prepare(folder, settings, config)
        raise typer.Exit
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        # The child has told why.
        raise typer.Exit(code)


def _prepare(folder: StateFolder, settings: Settings, config: Path | None) -> None:
    if folder.made():
        database.migrate(settings, also_postgresql=False)
    else:
        prepare(folder, settings, config, migrate=False)


def _executor(folder: StateFolder, config: Path | None) -> list[str]:
    return ["--state", str(folder.path), *([] if config is None else ["--config", str(config)])]


def _locked(folder: StateFolder, listener: ListenerName) -> AbstractContextManager[Lock]:
    return hold(folder.lock_file(listener), f"another server serves the {listener} listener from {folder.path}")


def _bound(settings: Settings, listener: ListenerName) -> socket.socket:
    address = settings.bind(listener)
    try:
        return bind(address.host, address.port)
    except OSError as error:
        raise RefusedError(f"{listener}.bind {address}: {error.strerror}") from None


def _announce(folder: StateFolder, urls: Mapping[ListenerName, str], machine: bool) -> None:
    places = {
        "state": str(folder.path.absolute()),
        "operatorToken": str(folder.operator_token.absolute()),
        "installCode": str(folder.install_code.absolute()),
        "demoKey": str(folder.demo_key.absolute()),
        "caFile": str(folder.authority_certificate.absolute()),
    }
    emit(machine, {"listeners": urls, **places}, lambda console: _show(console, urls, places))


def _show(console: Console, urls: Mapping[ListenerName, str], places: Mapping[str, str]) -> None:
    for name, address in urls.items():
        console.print(f"{name:<15} {address}  (documents: {address}/docs)")
    console.print(f"{'state folder':<15} {places['state']}")
    console.print(f"{'operator token':<15} {places['operatorToken']}")
    console.print(f"{'install code':<15} {places['installCode']}")
    console.print(f"{'demo key':<15} {places['demoKey']}")
    console.print(f"{'authority':<15} {places['caFile']}")
