"""Has a server that is a fork (forks.py) start its executor as a fork too: its imports alone would take a second."""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import os
import socket
import sys
from asyncio.streams import FlowControlMixin
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tools import cli
from tools.executor.supervisor import COMMAND

# Where each fork may ask for forks.
DOOR: Final = 3

_EXECUTOR: Final = "executor-of"
_create: Final = asyncio.create_subprocess_exec


class Executor:
    """What the supervisor uses of a process."""

    def __init__(self, pid: int, end: int, stdin: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.stdin = stdin
        self.returncode: int | None = None
        self._end = end
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(end, self._note)

    async def wait(self) -> int | None:
        """Return the exit code once the process has ended."""
        await self._ended.wait()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal; raises ProcessLookupError where the process has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def _note(self) -> None:
        asyncio.get_running_loop().remove_reader(self._end)
        self.returncode = int(os.read(self._end, 16))
        os.close(self._end)
        self.stdin.close()
        self._ended.set()


def name(server: int) -> str:
    """The name that the system knows the executor of a server by, whose child it is not."""
    return f"exec-{server}"


def main() -> None:
    """Be the executor that a server has asked for, or any `gatehouse`."""
    match sys.argv:
        case [_, word, server, *arguments] if word == _EXECUTOR:
            os.setsid()
            Path("/proc/self/comm").write_text(name(int(server)))
            importlib.import_module("tools.executor.child").main(arguments)
        case _:
            door = socket.socket(fileno=DOOR)
            patch("asyncio.create_subprocess_exec", functools.partial(_start, door)).start()
            cli.main()


async def _start(door: socket.socket, *command: str, **options: Any) -> Any:
    if command[: len(COMMAND)] != COMMAND:
        return await _create(*command, **options)
    pid, write, end = _ask(door, command[len(COMMAND) :], options["env"])
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, os.fdopen(write, "wb"))
    return Executor(pid, end, asyncio.StreamWriter(transport, protocol, None, loop))


def _ask(door: socket.socket, arguments: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Have an executor forked; returns its process, and where to write to it and to read its exit code."""
    own = [_EXECUTOR, str(os.getpid()), *arguments]
    order = json.dumps({"arguments": own, "environment": dict(environment), "cwd": str(Path.cwd())}).encode()
    read, write = os.pipe()
    end, told = os.pipe()
    with Path(os.devnull).open("w") as nothing:
        socket.send_fds(door, [order], [read, nothing.fileno(), sys.stderr.fileno(), told])
    pid = int(door.recv(16))
    for descriptor in (read, told):
        os.close(descriptor)
    return pid, write, end
