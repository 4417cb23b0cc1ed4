"""The server's side of the executor: starts its process, wakes it, starts it again when it dies, and ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from typing import Final

log = logging.getLogger("gatehouse.executor")

COMMAND: Final = (sys.executable, "-P", "-m", "tools.executor")
WAKE_SECONDS: Final = 0.05
STOP_SECONDS: Final = 2.0


class Supervisor:
    """Runs `command`, by default the executor with these arguments, from when the server answers until it stops."""

    def __init__(self, arguments: Sequence[str], *, command: Sequence[str] = COMMAND) -> None:
        self._command = [*command, *arguments]
        self._answering = asyncio.Event()
        self._process: Process | None = None
        self._quiet: asyncio.TimerHandle | None = None
        self._missed = False

    def start(self) -> None:
        """Let the executor start: the server answers, so that no start costs it a moment."""
        self._answering.set()

    def wake(self) -> None:
        """Tell the executor that there may be something to do, at most once in WAKE_SECONDS."""
        if self._quiet is not None:
            self._missed = True
            return
        self._quiet = asyncio.get_running_loop().call_later(WAKE_SECONDS, self._heard)
        self._write()

    async def run(self, stopping: asyncio.Event) -> None:
        """Run one process to its end, or until `stopping`: then it has STOP_SECONDS to end by itself."""
        halt = asyncio.create_task(stopping.wait())
        ready = asyncio.create_task(self._answering.wait())
        try:
            await asyncio.wait({halt, ready}, return_when=asyncio.FIRST_COMPLETED)
            if not halt.done():
                await self._attend(halt)
        finally:
            halt.cancel()
            ready.cancel()

    async def _attend(self, halt: asyncio.Task[bool]) -> None:
        process = await self._spawn()
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({halt, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not halt.done():
                log.error("the executor has ended, and is started again", extra={"code": process.returncode})
            else:
                # It heeds the signal from its first moment on, the end of its standard input once it reads that.
                _end(process, signal.SIGTERM)
                await asyncio.wait({ended}, timeout=STOP_SECONDS)
        finally:
            self._process = None
            _end(process, signal.SIGKILL)
            await ended

    async def _spawn(self) -> Process:
        # DBOS would take its variables for settings, also for one that makes it call out.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DBOS")}
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=DEVNULL,
            # Without a log of the server's, what has its number may be any file.
            stderr=None if sys.stderr else DEVNULL,
            env=environment,
            # What a terminal sends to all of its processes is for the server, which then ends this one.
            start_new_session=True,
        )
        return self._process

    def _heard(self) -> None:
        self._quiet = None
        if self._missed:
            self._missed = False
            self.wake()

    def _write(self) -> None:
        pipe = self._process and self._process.stdin
        # One that takes nothing has enough to read.
        if pipe and not pipe.is_closing() and pipe.transport.get_write_buffer_size() == 0:
            pipe.write(b"\n")


def _end(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
