"""Run ids: UUIDv7 (RFC 9562, section 5.7), given in rising order within one process."""

from __future__ import annotations

import os
import struct
from uuid import UUID

_COUNTER_LIMIT = 1 << 12

# Random bytes are taken from the system for this many ids at once: each call lets go of the interpreter's lock, which a
# busy event loop may then keep for milliseconds.
_IDS_AT_ONCE = 512


class RunIds:
    """A source of UUIDv7s that never falls behind itself, also when the clock does; for one thread."""

    def __init__(self) -> None:
        self._millisecond = 0
        self._counter = 0
        self._random: list[int] = []

    def take(self, millisecond: int) -> str:
        """The next id as 32 lower-case hex digits; `millisecond` is the present as epoch milliseconds.

        The twelve bits after the version count within one millisecond (RFC 9562, section 6.2, method 1), the rest is
        random.
        """
        if millisecond > self._millisecond:
            self._millisecond, self._counter = millisecond, 0
        elif self._counter + 1 < _COUNTER_LIMIT:
            self._counter += 1
        else:
            self._millisecond, self._counter = self._millisecond + 1, 0
        if not self._random:
            self._random.extend(struct.unpack(f"{_IDS_AT_ONCE}Q", os.urandom(8 * _IDS_AT_ONCE)))
        tail = self._random.pop() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        return f"{self._millisecond:012x}7{self._counter:03x}{tail:016x}"


def hyphenated(digits: str) -> str:
    """The 36 characters of the UUID whose 32 hex digits are given."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def hex_digits(stored: str | UUID) -> str:
    """The 32 hex digits of an id as a driver gives it: SQLite has them as they are, PostgreSQL as a UUID."""
    return stored if isinstance(stored, str) else stored.hex


def parse(text: str) -> UUID | None:
    """The UUID that the text names, None where it names none."""
    try:
        return UUID(text)
    except ValueError:
        return None
