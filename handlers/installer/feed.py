"""The source of all streams: what is committed comes here once, and each reader goes through it at its own pace.

A reader is a position and nothing else. Where it is among the recent events it takes them from memory, where it is
behind them from history, and as both are told by ids without gaps, none is missed or repeated at the switch.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from handlers.installer.frames import COMMENT, Chunk, pack
from handlers.installer.history import History
from storage.errors import StorageError
from storage.installer.events import Events, StoredEvent

log = logging.getLogger("gatehouse.installer")

COMMENT_SECONDS: Final = 15.0
# The bytes of recent events that are kept for readers that are not far behind.
RECENT_BYTES: Final = 2 << 20
# When storage fails a reader that was answered already, it is tried again so much later.
PAUSE_SECONDS: Final = 1.0

_AFTER: Final = attrgetter("after")


class Feed:
    """How far the stream has come, its recent events, and who waits for the next."""

    def __init__(self, events: Events, *, comment_seconds: float = COMMENT_SECONDS) -> None:
        self._events = events
        self._history = History(events)
        self._waiting = _Waiting(comment_seconds)
        self._recent: list[Chunk] = []
        self._recent_bytes = 0
        self._known = False
        self._stopped = False
        self._attempt = 0
        self._over = False
        self.last = 0

    @property
    def ended(self) -> bool:
        """Whether nothing comes after the last event: the latest attempt has its verdict, or the server stops."""
        return self._over or self._stopped

    async def catch_up(self) -> None:
        """Learn from storage how far the stream has come; raises Unavailable and Overloaded."""
        head = await self._events.head()
        self._known = True
        # Meanwhile more may have been told than this read saw.
        if (head.latest_attempt, head.last_id) < (self._attempt, self.last):
            return
        if head.last_id > self.last:
            self._forget()
        self.last = head.last_id
        self._attempt = head.latest_attempt
        self._over = head.latest_attempt > 0 and not head.running
        self._waiting.wake(self.last, self.ended)

    def began(self, attempt: int) -> None:
        """Tell that an attempt has begun: the stream goes on, also for readers that are at the last verdict."""
        self._attempt = attempt
        self._over = False

    def published(self, attempt: int, events: Sequence[StoredEvent]) -> None:
        """Tell what was committed of an attempt, in order, at once after the commit."""
        new = [event for event in events if event.id > self.last]
        if not new:
            return
        if new[0].id > self.last + 1:
            self._forget()
        self._remember(new)
        self.last = new[-1].id
        self._over = new[-1].type == "verdict" and attempt >= self._attempt
        self._waiting.wake(self.last, self.ended)

    def stopped(self) -> None:
        """Tell that nothing more will be published: readers get what there is, and end."""
        self._stopped = True
        self._waiting.wake(self.last, self.ended)

    async def open(self, after: int) -> Reader:
        """Give what a stream sends from after that id on; raises Unavailable and Overloaded while that can be told."""
        if not self._known:
            await self.catch_up()
        ahead = await self.chunk(after) if after < self.last else None
        return Reader(self, after, ahead)

    async def chunk(self, position: int) -> Chunk:
        """The chunk with the event that follows on `position`, which is before `last`."""
        number = bisect_right(self._recent, position, key=_AFTER)
        return self._recent[number - 1] if number else await self._history.chunk(position)

    async def more(self, position: int) -> bool:
        """Wait until there is an event beyond `position` or the end; False where it is time for a comment."""
        return await self._waiting.wait(position)

    def _remember(self, events: Sequence[StoredEvent]) -> None:
        chunks = [self._recent.pop()] if self._recent else []
        before = sum(map(len, chunks))
        pack(chunks, events)
        self._recent += chunks
        self._recent_bytes += sum(map(len, chunks)) - before
        while self._recent_bytes > RECENT_BYTES and len(self._recent) > 1:
            self._recent_bytes -= len(self._recent.pop(0))

    def _forget(self) -> None:
        self._recent.clear()
        self._recent_bytes = 0


class Reader:
    """One stream: chunks of whole frames, and comments; it holds nothing that would have to be given back."""

    def __init__(self, feed: Feed, position: int, ahead: Chunk | None) -> None:
        self._feed = feed
        self._position = position
        self._ahead = ahead

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> bytes:
        """Wait for what is to be sent next."""
        while self._position >= self._feed.last:
            if self._feed.ended:
                raise StopAsyncIteration
            if not await self._feed.more(self._position):
                return COMMENT
        try:
            chunk, self._ahead = self._ahead or await self._feed.chunk(self._position), None
        except StorageError as error:
            log.warning("storage: %s", error)
            await asyncio.sleep(PAUSE_SECONDS)
            return COMMENT
        data, self._position = chunk.beyond(self._position), chunk.last
        return data


class _Waiting:
    """The readers that have all there is, in the order in which a comment is due for them.

    One timer serves all of them: each waits for the same time.
    """

    def __init__(self, comment_seconds: float) -> None:
        self._seconds = comment_seconds
        self._readers: dict[asyncio.Future[bool], tuple[int, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, position: int) -> bool:
        """Wait for an event beyond `position`; False where none came for so long that a comment is due."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        due = loop.time() + self._seconds
        self._readers[future] = (position, due)
        if self._timer is None:
            self._timer = loop.call_at(due, self._look)
        try:
            return await future
        finally:
            self._readers.pop(future, None)

    def wake(self, last: int, ended: bool) -> None:
        """Wake the readers for which there is something, or that end."""
        for future, (position, _) in list(self._readers.items()):
            if ended or position < last:
                self._wake(future, True)

    def _look(self) -> None:
        """Wake those for which a comment is due, and look again when the next one is."""
        loop = asyncio.get_running_loop()
        self._timer = None
        for future, (_, due) in list(self._readers.items()):
            if due > loop.time():
                self._timer = loop.call_at(due, self._look)
                return
            self._wake(future, False)

    def _wake(self, future: asyncio.Future[bool], there_is_more: bool) -> None:
        del self._readers[future]
        if not future.done():
            future.set_result(there_is_more)
