"""Runs one command of a step: in a process group of its own, without a shell, its output taken line by line."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from handlers.steps.leftover import Mark, MarkError, marked
from handlers.steps.plan import Command

# From SIGTERM to SIGKILL.
GRACE_SECONDS: Final = 5.0
HURRIED_GRACE_SECONDS: Final = 1.0
# What a command had in its pipe when it ended is read at once; who else still writes to it has so long.
REST_SECONDS: Final = 0.0
# How often, and after which pauses, those are looked at that the command has started and that outlive it.
_LAST_LOOKS: Final = 10
_LOOK_SECONDS: Final = 0.02
# As much as a pipe holds.
_CHUNK_BYTES: Final = 65_536

Take: TypeAlias = Callable[[str], Awaitable[None]]


class StepFailed(Exception):
    """A command did not do what its step asks; the text says why."""


class Lines(Protocol):
    """Makes lines of the output of one command."""

    def feed(self, data: bytes) -> Iterable[str]:
        """Give the lines that these bytes end."""

    def end(self) -> Iterable[str]:
        """Give the line that was begun and has no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a command runs, and how it is ended.

    `mark` is the file by which a process that comes after a killed one finds the command, `giving_up` an event that
    ends it before its time, and in a hurry.
    """

    environment: Mapping[str, str]
    mark: Path
    folder: Path | None = None
    grace_seconds: float = GRACE_SECONDS
    hurried_grace_seconds: float = HURRIED_GRACE_SECONDS
    rest_seconds: float = REST_SECONDS
    giving_up: asyncio.Event = field(default_factory=asyncio.Event)


async def run(command: Command, around: Surroundings, lines: Lines, take: Take) -> None:
    """Run a command to its end and give each line of its output to `take`, which may make it wait.

    Raises StepFailed where it cannot be started, ends with another code than 0 or not in time, or is given up. The step
    is over when the command ends: what it leaves behind goes on, with its own output. Where this is cancelled, the
    group ends.
    """
    try:
        with marked(around.mark) as lock:
            await _run(command, around, lock, lines, take)
    except MarkError as error:
        raise StepFailed(f"{command.run[0]} cannot be run: {error}") from None


async def _run(command: Command, around: Surroundings, lock: Mark, lines: Lines, take: Take) -> None:
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        try:
            process = await _started(command, around, writing, lock)
        finally:
            os.close(writing)
        await _Running(command, around, process, reading).end(lock, lines, take)
    finally:
        os.close(reading)


async def _started(command: Command, around: Surroundings, output: int, lock: Mark) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command.run,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=around.environment,
            cwd=around.folder,
            start_new_session=True,
            pass_fds=[lock.descriptor],
        )
    except OSError as error:
        raise StepFailed(f"{command.run[0]} cannot be run: {error.strerror}") from None
    except ValueError:
        # What the founder calls the node or its peers is in the environment, and a NUL cannot be.
        raise StepFailed(f"{command.run[0]} cannot be run: its environment has a NUL") from None


class _Running:
    """A command that has been started, and the descriptor by which its output is read."""

    def __init__(
        self, command: Command, around: Surroundings, process: asyncio.subprocess.Process, reading: int
    ) -> None:
        self._command = command
        self._around = around
        self._process = process
        self._reading = reading
        self._exited = asyncio.create_task(process.wait())

    async def end(self, lock: Mark, lines: Lines, take: Take) -> None:
        """Take all its lines, until it has ended; StepFailed where that is not how it should.

        MarkError where the lock cannot tell of it: then it is ended, as nobody would find it.
        """
        # The command is ended at its time, not the copying of what it wrote, so that no line is lost half-way.
        limit = asyncio.create_task(self._limited())
        try:
            lock.note(self._process.pid)
            await self._copy(lines, take)
            why = await limit
        finally:
            await self._end_group()
            limit.cancel()
        await self._copy_rest(lines, take)
        code = self._exited.result()
        program = self._command.run[0]
        if why:
            raise StepFailed(f"{program} {why}")
        if code:
            raise StepFailed(f"{program} ended {f'with code {code}' if code > 0 else f'by signal {-code}'}")

    async def _limited(self) -> str:
        """Wait until the command has ended by itself, or end it in time or when it is given up, and say why."""
        given_up = asyncio.create_task(self._around.giving_up.wait())
        try:
            await asyncio.wait(
                {self._exited, given_up},
                timeout=self._command.timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._exited.done():
                return ""
            why = "was ended" if given_up.done() else f"did not end within {self._command.timeout_seconds} s"
        finally:
            given_up.cancel()
        await self._end_group()
        return why

    async def _end_group(self) -> None:
        """End a command that still runs, and its whole group: it is asked first."""
        if self._exited.done():
            return
        around = self._around
        self._signal(signal.SIGTERM)
        try:
            seconds = around.hurried_grace_seconds if around.giving_up.is_set() else around.grace_seconds
            await asyncio.wait({self._exited}, timeout=seconds)
            for _ in range(_LAST_LOOKS):
                if not self._signal(0):
                    break
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._signal(signal.SIGKILL)
            await self._exited

    def _signal(self, number: int) -> bool:
        """Send a signal to the group; False where nobody is in it any more."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True

    async def _copy(self, lines: Lines, take: Take) -> None:
        """Take what the command writes, until it has ended; whoever else has the pipe open is not waited for."""
        while not self._exited.done():
            await self._readable({self._exited}, None)
            data = self._read()
            if data == b"":
                # All writers are gone.
                await asyncio.wait({self._exited})
            for line in lines.feed(data or b""):
                await take(line)

    async def _copy_rest(self, lines: Lines, take: Take) -> None:
        """Take what stands in the pipe, or comes into it for a little longer, and a last line that has no end."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._around.rest_seconds
        while True:
            data = self._read()
            for line in lines.feed(data or b""):
                await take(line)
            if data == b"" or loop.time() >= until:
                break
            if data is None:
                await self._readable(set(), until - loop.time())
        for line in lines.end():
            await take(line)

    def _read(self) -> bytes | None:
        """Return what can be read at once: b"" at the end, None where nothing has come yet."""
        try:
            return os.read(self._reading, _CHUNK_BYTES)
        except BlockingIOError:
            return None

    async def _readable(self, others: set[asyncio.Task[int]], seconds: float | None) -> None:
        """Wait until there is something to read, the end included, or one of the others is done."""
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(self._reading, lambda: None if readable.done() else readable.set_result(None))
        try:
            await asyncio.wait({readable, *others}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(self._reading)
            readable.cancel()
