"""Reads server-sent events as the WHATWG HTML standard says (9.2.6, "Interpreting an event stream")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# One event with all of its lines; the longest that an installer sends has a tenth of it.
MOST_BYTES: Final = 4 << 20
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class TooLongError(Exception):
    """An event is longer than anybody who is well sends."""


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event; `id` is the last event id as it then is, "" where there was none."""

    type: str
    data: str
    id: str


class Parser:
    """Makes events of the bytes of one answer, which may be cut anywhere.

    `retry` is how many milliseconds a client is asked to wait before it connects again, None as long as it is not.
    """

    def __init__(self) -> None:
        self.retry: int | None = None
        self._begun = b""
        self._first = True
        self._after_cr = False
        self._type = ""
        self._data: list[str] = []
        self._size = 0
        self._id = ""

    def feed(self, data: bytes) -> Iterator[Event]:
        """Give the events that these bytes end; what no empty line ends is none. Raises TooLongError."""
        if not data:
            return
        ends_with_cr = data.endswith(b"\r")
        if self._after_cr:
            # It belongs to a line that has ended already.
            data = data.removeprefix(b"\n")
        self._after_cr = ends_with_cr
        *lines, self._begun = _LINE_END.split(self._begun + data)
        for line in lines:
            event = self._line(line)
            if event is not None:
                yield event
        self._bound(len(self._begun))

    def _line(self, raw: bytes) -> Event | None:
        if self._first:
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
            self._first = False
        if not raw:
            return self._dispatch()
        name, _, value = raw.decode("utf-8", "replace").partition(":")
        self._field(name, value.removeprefix(" "))
        self._size += len(raw)
        self._bound(0)
        return None

    def _field(self, name: str, value: str) -> None:
        match name:
            case "event":
                self._type = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit() and len(value) < 10:
                self.retry = int(value)

    def _dispatch(self) -> Event | None:
        kind, data = self._type, self._data
        self._type, self._data, self._size = "", [], 0
        return Event(kind or "message", "\n".join(data), self._id) if data else None

    def _bound(self, more: int) -> None:
        if self._size + more > MOST_BYTES:
            raise TooLongError
