"""Writes the events of one attempt: those that come while a commit runs are the next one's, and none is doubled."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from handlers.installer.feed import Feed
from storage.errors import StorageError
from storage.installer.events import Events, NewEvent, StoredEvent

log = logging.getLogger("gatehouse.installer")

# What may wait to be written before those who write more have to wait; an event counts as its line and so much beside.
UNWRITTEN_BYTES: Final = 1 << 20
_EVENT_BYTES: Final = 256
# How long it is tried before what is under way is given up.
PATIENCE_SECONDS: Final = 30.0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0


class Record:
    """The events of an attempt on their way into storage, and from there to the feed."""

    def __init__(
        self, events: Events, feed: Feed, attempt: int, last_id: int, *, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._events = events
        self._feed = feed
        self._attempt = attempt
        self._last_id = last_id
        self._patience = patience_seconds
        self._waiting: list[NewEvent] = []
        self._unwritten = 0
        self._come = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.hopeless = asyncio.Event()

    def put(self, event: NewEvent) -> None:
        """Have an event written, also where there is no room; a verdict is the last."""
        self._waiting.append(event)
        self._unwritten += _size(event)
        self._come.set()
        if self._unwritten > UNWRITTEN_BYTES:
            self._room.clear()

    async def room(self) -> None:
        """Wait until there is room for more."""
        await self._room.wait()

    async def run(self) -> None:
        """Write what comes until a verdict is written; where storage fails it is tried again and again.

        `hopeless` is set once that goes on for too long.
        """
        while True:
            await self._come.wait()
            self._come.clear()
            batch, self._waiting = self._waiting, []
            stored = await self._written(batch)
            self._last_id = stored[-1].id
            self._feed.published(self._attempt, stored)
            self._unwritten -= sum(map(_size, batch))
            self._room.set()
            if stored[-1].type == "verdict":
                return

    async def _written(self, batch: Sequence[NewEvent]) -> list[StoredEvent]:
        pause, since, unclear = _FIRST_PAUSE, time.monotonic(), False
        while True:
            try:
                # What a commit that failed has become of may be unknown.
                standing = await self._standing(len(batch)) if unclear else []
                stored = standing or await self._events.append(self._attempt, batch)
                return await self._ended_elsewhere() if stored is None else stored
            except StorageError as error:
                if not unclear:
                    log.warning("storage: %s", error, extra={"attempt": self._attempt})
                unclear = True
                if time.monotonic() - since >= self._patience:
                    self.hopeless.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _standing(self, count: int) -> list[StoredEvent]:
        """Return the events that stand beyond the last one that was known: the whole batch, or none of it."""
        stored: list[StoredEvent] = []
        while page := await self._events.page(self._last_id + len(stored), count - len(stored)):
            stored += page
        return stored

    async def _ended_elsewhere(self) -> list[StoredEvent]:
        """Another process has ended the attempt: give the events with which it did."""
        return await self._standing((await self._events.head()).last_id - self._last_id)


def _size(event: NewEvent) -> int:
    return len(event.line or "") + _EVENT_BYTES
