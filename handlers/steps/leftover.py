"""The command of a step that outlived the process that ran it: found and ended before another runs beside it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MODE: Final = 0o600
_LOOK_SECONDS: Final = 0.02


class MarkError(Exception):
    """The file of a mark cannot be written; the text says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the mark of its step cannot be written: {error.strerror}")


class Mark:
    """A locked file; the lock lives as long as anybody has the descriptor, so also after the process was killed."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def note(self, group: int) -> None:
        """Note the process group that inherits the descriptor; raises MarkError."""
        try:
            os.pwrite(self.descriptor, str(group).encode(), 0)
        except OSError as error:
            raise MarkError(error) from None


@contextlib.contextmanager
def marked(file: Path) -> Iterator[Mark]:
    """Give a mark for a command to inherit; it goes when the step is over, whatever the command leaves behind then.

    Raises MarkError.
    """
    try:
        # Another file than the last step's: what that one left behind for good may still hold its lock.
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, _MODE)
    except OSError as error:
        raise MarkError(error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield Mark(descriptor)
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


async def end(file: Path, *, grace_seconds: float) -> None:
    """End the process group that holds the mark which a killed process left, if it still runs: it is asked first."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), file.open() as mark:
        group = mark.read()
        if not group.isdecimal() or _free(mark.fileno()):
            return
        _signal(int(group), signal.SIGTERM)
        for _ in range(round(grace_seconds / _LOOK_SECONDS)):
            if _free(mark.fileno()):
                return
            await asyncio.sleep(_LOOK_SECONDS)
        _signal(int(group), signal.SIGKILL)


def _free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
