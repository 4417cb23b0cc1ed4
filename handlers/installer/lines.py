"""Makes lines of what a step writes: each is one event, and a long one takes no more memory than what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

# What is kept of a line; it is counted how much more there was.
LINE_BYTES: Final = 65_536

_CONTINUED: Final = range(0x80, 0xC0)
_LONGEST_CHARACTER: Final = 4


class Lines:
    """The lines of one command: LF ends one, all else stays; what is no UTF-8 is replaced."""

    def __init__(self) -> None:
        self._kept = bytearray()
        # One byte beyond the bound is kept too: it tells whether the bound is amid a character.
        self._more = 0

    def feed(self, data: bytes) -> Iterator[str]:
        """Give the lines that these bytes end."""
        *ended, begun = data.split(b"\n")
        for part in ended:
            self._add(part)
            yield self._line()
        self._add(begun)

    def end(self) -> Iterator[str]:
        """Give the line that was begun and has no end."""
        if self._kept:
            yield self._line()

    def _add(self, part: bytes) -> None:
        room = LINE_BYTES + 1 - len(self._kept)
        self._kept += part[:room]
        self._more += max(0, len(part) - room)

    def _line(self) -> str:
        kept, more = bytes(self._kept), self._more
        self._kept.clear()
        self._more = 0
        if len(kept) <= LINE_BYTES:
            return kept.decode(errors="replace")
        end = _last_end(kept)
        return f"{kept[:end].decode(errors='replace')} [cut: {len(kept) - end + more} more bytes]"


def _last_end(kept: bytes) -> int:
    """Return where the last character ends that is within the bound as a whole."""
    end = LINE_BYTES
    while kept[end] in _CONTINUED and LINE_BYTES - end < _LONGEST_CHARACTER - 1:
        end -= 1
    return LINE_BYTES if kept[end] in _CONTINUED else end
