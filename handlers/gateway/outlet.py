"""Where log lines leave the process: in a thread of its own, so that a log that nobody reads holds up no request."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator
from typing import Final, Protocol

# So many pieces wait, each of some lines; what comes while nothing is taken from them is dropped.
WAITING_PIECES: Final = 64
STOP_SECONDS: Final = 1.0


class LogStream(Protocol):
    """What log lines are written to: a text file or an Outlet."""

    def write(self, text: str, /) -> object:
        """Take some lines."""

    def flush(self) -> object:
        """Let them go."""


class Outlet:
    """Writes text to a file descriptor, in order, without ever making its caller wait."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="log-outlet", daemon=True)
        self._thread.start()

    def write(self, text: str, /) -> object:
        """Take some lines, or drop them where too much waits already."""
        if self._pieces.qsize() < WAITING_PIECES:
            self._pieces.put(text.encode(errors="backslashreplace"))
        return None

    def flush(self) -> object:
        """Do nothing: what was taken is on its way."""
        return None

    def close(self) -> None:
        """Give what waits a moment to leave; a reader that does not take it keeps no process alive."""
        self._pieces.put(None)
        self._thread.join(STOP_SECONDS)

    def _serve(self) -> None:
        while (piece := self._pieces.get()) is not None:
            # The reader may be gone; the next piece is tried all the same.
            with contextlib.suppress(OSError):
                while piece:
                    piece = piece[os.write(self._descriptor, piece) :]


@contextlib.contextmanager
def outlet(descriptor: int) -> Iterator[Outlet]:
    """Give an Outlet that is closed at the end; the descriptor stays open."""
    opened = Outlet(descriptor)
    try:
        yield opened
    finally:
        opened.close()
