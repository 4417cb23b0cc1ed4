"""Events as server-sent events, encoded once for all readers and packed into chunks of many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from storage.installer.events import StoredEvent

# A chunk has at most so many bytes; an event that alone has more is a chunk by itself.
CHUNK_BYTES: Final = 65_536

COMMENT: Final = b":\n\n"


def frame(event: StoredEvent) -> bytes:
    """Return the event as a server-sent event; JSON has neither CR nor LF, so that its data is one line."""
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.id, event.type.encode(), event.body)


class Chunk:
    """The frames of events that follow on each other; `after` is the id before the first of them."""

    def __init__(self, after: int) -> None:
        self.after = after
        self._data: bytes | bytearray = bytearray()
        self._ends: list[int] = []
        self._cut: tuple[int, int, bytes] = (0, 0, b"")

    def __len__(self) -> int:
        return len(self._data)

    @property
    def last(self) -> int:
        """The id of its last event."""
        return self.after + len(self._ends)

    def add(self, encoded: bytes) -> bool:
        """Add the frame of the next event; False where there is no room for it, and never will be."""
        if self._ends and len(self._data) + len(encoded) > CHUNK_BYTES:
            self.close()
            return False
        self._data += encoded
        self._ends.append(len(self._data))
        return True

    def close(self) -> None:
        """Let nothing more be added."""
        self._data = bytes(self._data)
        self._cut = (0, len(self._data), self._data)

    def beyond(self, position: int) -> bytes:
        """The frames of its events with a larger id; `position` is from `after` on and before `last`.

        Readers that want the same as the one before get the same bytes: many follow at the head, or begin with a chunk.
        """
        start = self._ends[position - self.after - 1] if position > self.after else 0
        cut_start, cut_end, cut = self._cut
        if (start, len(self._data)) != (cut_start, cut_end):
            with memoryview(self._data) as data:
                cut = bytes(data[start:])
            # A chunk that is closed keeps the whole of it, which is no copy.
            if not isinstance(self._data, bytes):
                self._cut = (start, len(self._data), cut)
        return cut


def pack(chunks: list[Chunk], events: Iterable[StoredEvent]) -> None:
    """Add events, each of which follows on what was there before it, to the last of the chunks and to further ones."""
    for event in events:
        encoded = frame(event)
        if not chunks or not chunks[-1].add(encoded):
            chunks.append(Chunk(event.id - 1))
            chunks[-1].add(encoded)
