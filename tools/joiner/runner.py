"""Runs one command of a step: in a process group of its own, without a shell, its output taken line by line."""

from __future__ import annotations

import array
import asyncio
import codecs
import fcntl
import os
import signal
import termios
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from tools.joiner.leftover import Mark, marked
from tools.joiner.planfile import Command

# What a longer line is cut into: several lines, so that nothing of it is lost.
LINE_CHARACTERS: Final = 4096
# From SIGTERM to SIGKILL.
GRACE_SECONDS: Final = 5.0
# How often, and after which pauses, those are looked at that the command has started and that outlive it.
_LAST_LOOKS: Final = 10
_LOOK_SECONDS: Final = 0.02

Take: TypeAlias = Callable[[str], Awaitable[None]]


class StepFailed(Exception):
    """A command did not do what its step asks; the text says why."""


async def run(
    command: Command, environment: Mapping[str, str], take: Take, *, mark: Path, grace_seconds: float = GRACE_SECONDS
) -> None:
    """Run a command to its end and give each line of its output to `take`, which may make it wait.

    `mark` is the file by which a joiner that comes after a killed one finds the command.

    Raises StepFailed where it cannot be started, ends with another code than 0 or not in time. The step is over when
    the command ends: what it leaves behind goes on, with its own output. Where this is cancelled, the group ends.
    """
    with marked(mark) as lock:
        reading, writing = os.pipe()
        try:
            try:
                process = await _started(command, environment, writing, lock)
            finally:
                os.close(writing)
            lock.note(process.pid)
            await _ended(command, process, reading, take, grace_seconds)
        finally:
            os.close(reading)


async def _started(
    command: Command, environment: Mapping[str, str], output: int, lock: Mark
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command.run,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
            pass_fds=[lock.descriptor],
        )
    except OSError as error:
        raise StepFailed(f"{command.run[0]} cannot be run: {error.strerror}") from None
    except ValueError:
        # What the founder calls the node or its peers is in the environment, and a NUL cannot be.
        raise StepFailed(f"{command.run[0]} cannot be run: its environment has a NUL") from None


async def _ended(
    command: Command, process: asyncio.subprocess.Process, reading: int, take: Take, grace_seconds: float
) -> None:
    exited = asyncio.create_task(process.wait())
    lines = _Lines()
    # The command is ended at its time, not the copying of what it wrote, so that no line is lost half-way.
    limit = asyncio.create_task(_in_time(command, process, exited, grace_seconds))
    try:
        await _copy(reading, exited, lines, take)
        in_time = await limit
    finally:
        await _end(process, exited, grace_seconds)
        limit.cancel()
    await _rest(reading, lines, take)
    if not in_time:
        raise StepFailed(f"{command.run[0]} did not end within {command.timeout_seconds} s")
    code = exited.result()
    if code:
        raise StepFailed(f"{command.run[0]} ended {f'with code {code}' if code > 0 else f'by signal {-code}'}")


async def _in_time(
    command: Command, process: asyncio.subprocess.Process, exited: asyncio.Task[int], grace_seconds: float
) -> bool:
    """Tell whether the command ended by itself in its time; else end it."""
    await asyncio.wait({exited}, timeout=command.timeout_seconds)
    in_time = exited.done()
    await _end(process, exited, grace_seconds)
    return in_time


async def _end(process: asyncio.subprocess.Process, exited: asyncio.Task[int], grace_seconds: float) -> None:
    """End a command that still runs, and its whole group: it is asked first."""
    if exited.done():
        return
    _signal(process, signal.SIGTERM)
    try:
        await asyncio.wait({exited}, timeout=grace_seconds)
        for _ in range(_LAST_LOOKS):
            if not _signal(process, 0):
                break
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        _signal(process, signal.SIGKILL)
        await exited


def _signal(process: asyncio.subprocess.Process, number: int) -> bool:
    """Send a signal to the group; False where nobody is in it any more."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


async def _copy(reading: int, exited: asyncio.Task[int], lines: _Lines, take: Take) -> None:
    """Take what the command writes, until it has ended; whoever else has the pipe open is not waited for."""
    while not exited.done():
        await _readable(reading, exited)
        count = _waiting(reading)
        if not count:
            # All writers are gone, or the command is.
            await asyncio.wait({exited})
        for line in lines.feed(os.read(reading, count) if count else b""):
            await take(line)


async def _rest(reading: int, lines: _Lines, take: Take) -> None:
    """Take what stands in the pipe at this moment, and a last line that has no end."""
    count = _waiting(reading)
    for line in [*lines.feed(os.read(reading, count) if count else b""), *lines.end()]:
        await take(line)


async def _readable(descriptor: int, exited: asyncio.Task[int]) -> None:
    """Wait until there is something to read, the end included, or the command has ended."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(descriptor, lambda: None if readable.done() else readable.set_result(None))
    try:
        await asyncio.wait({readable, exited}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(descriptor)
        readable.cancel()


def _waiting(descriptor: int) -> int:
    """Return how many bytes can be read at once, 0 at the end and where nothing has come yet."""
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]


class _Lines:
    """Makes lines of bytes: UTF-8, with what is none replaced; a line that is too long becomes several."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    def feed(self, data: bytes, *, final: bool = False) -> Iterator[str]:
        """Give the lines that these bytes end."""
        *ended, self._begun = (self._begun + self._decoder.decode(data, final)).split("\n")
        for line in ended:
            yield from _pieces(line.removesuffix("\r"))
        while len(self._begun) > LINE_CHARACTERS:
            yield self._begun[:LINE_CHARACTERS]
            self._begun = self._begun[LINE_CHARACTERS:]

    def end(self) -> Iterator[str]:
        """Give the line that was begun and has no end."""
        yield from self.feed(b"", final=True)
        if self._begun:
            yield self._begun


def _pieces(line: str) -> Iterator[str]:
    yield from (line[start : start + LINE_CHARACTERS] for start in range(0, max(len(line), 1), LINE_CHARACTERS))
