"""`gatehouse demo`: what the demo workflow calls, as a program of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from handlers.gateway.server import bind
from tools.commands.client import local
from tools.commands.folder import url
from tools.commands.terminal import Machine, RefusedError, emit, group, plain
from tools.receiver import Receiver, Recorder
from tools.settings import Bind, Settings
from tools.standalone import Standalone
from tools.state import DEMO_CONNECTION

app = group()


@app.callback()
def demo() -> None:
    """Run what the demo workflow calls."""


@app.command()
def receiver(
    *,
    where: Annotated[
        str,
        typer.Option(
            "--bind",
            metavar="HOST:PORT",
            callback=local("must be a loopback address: whoever reaches it is answered"),
            help="Where it listens.",
        ),
    ] = "127.0.0.1:8099",
    while_stdin: Annotated[
        bool, typer.Option("--while-stdin", hidden=True, help="End where the standard input ends, too.")
    ] = False,
    machine: Machine = False,
) -> None:
    """Record what is sent, answer the same command alike, and print a line for each, until SIGTERM or SIGINT."""
    place = Bind.parse(where)
    try:
        opened = bind(place.host, place.port)
    except OSError as error:
        raise RefusedError(f"the receiver cannot have {place}: {error.strerror}") from None
    with opened:
        asyncio.run(_serve(opened, machine=machine, while_stdin=while_stdin))


async def _serve(opened: socket.socket, *, machine: bool, while_stdin: bool) -> None:
    def told(entry: Mapping[str, Any]) -> None:
        # Whoever read the lines may have gone; what is got is answered all the same.
        with contextlib.suppress(BrokenPipeError):
            emit(machine, entry, lambda console: console.print(_line(entry)))

    server = Standalone(Receiver(Recorder(told)))
    if while_stdin:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), server.stop)
    address = url(*opened.getsockname()[:2], tls=False)
    emit(machine, {"receiver": address}, lambda console: console.print(f"{'demo receiver':<15} {address}"))
    await server.serve(sockets=[opened])


def _line(entry: Mapping[str, Any]) -> str:
    words = [entry["method"], entry["target"], f"key {entry['idempotencyKey'] or '-'}", json.dumps(entry["body"])]
    again = f", delivery {entry['deliveries']}" if entry["deliveries"] > 1 else ""
    return plain(f"demo receiver   {' '.join(words)} -> {entry['status']}{again}")


@contextlib.contextmanager
def beside(settings: Settings, *, machine: bool) -> Iterator[None]:
    """Run the receiver in a process of its own where the demo's connection leads, which ends with this one.

    Its standard input is a pipe from here, so that it ends however this process does. One that cannot have its address
    says so itself.
    """
    connection = settings.connections.get(DEMO_CONNECTION)
    parts = urlsplit("" if connection is None else connection.base_url)
    if parts.scheme != "http":
        typer.echo(f"gatehouse: no demo receiver: no connection {DEMO_CONNECTION} leads to this machine", err=True)
        yield
        return
    place = Bind(str(parts.hostname), parts.port or 80)
    # Without -P a folder named tools, wherever the server was started, would be taken for ours.
    command = [sys.executable, "-P", "-m", "tools.cli", "demo", "receiver", "--bind", str(place), "--while-stdin"]
    if machine:
        command.append("--json")
    with subprocess.Popen(command, stdin=subprocess.PIPE):  # noqa: S603 - our own command, with an address of our own
        yield
