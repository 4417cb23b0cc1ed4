"""Readers of a stream, for tests: what they were sent, read as a browser would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from handlers.installer.feed import Feed
from storage.database import Storage
from storage.installer.events import NewEvent
from tests.storage.installer.work import append, started


class Reading:
    """What one reader was sent."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.ended = False

    @property
    def text(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def comments(self) -> int:
        return self.chunks.count(b":\n\n")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events, each checked to be one `data:` line that fits its id and its type."""
        return [_event(block) for block in self.text.split(b"\n\n") if block not in (b"", b":")]

    @property
    def ids(self) -> list[int]:
        return [event["id"] for event in self.events]

    async def all(self, chunks: AsyncIterator[bytes]) -> Reading:
        async for chunk in chunks:
            self.chunks.append(chunk)
        self.ended = True
        return self


def _event(block: bytes) -> dict[str, Any]:
    event_id, kind, data = block.split(b"\n")
    body: dict[str, Any] = json.loads(data.removeprefix(b"data: "))
    assert (event_id, kind) == (b"id: %d" % body["id"], b"event: %b" % body["type"].encode())
    return body


async def read(feed: Feed, after: int = 0) -> Reading:
    """Read a stream to its end."""
    return await Reading().all(await feed.open(after))


async def reading(feed: Feed, after: int = 0) -> tuple[Reading, asyncio.Task[Reading]]:
    """Begin to read a stream, for as long as the task runs."""
    of = Reading()
    return of, asyncio.create_task(of.all(await feed.open(after)))


async def settled() -> None:
    """Let everybody do what can be done without waiting for storage or a timer."""
    for _ in range(20):
        await asyncio.sleep(0)


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that nobody tells of."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - that is what it is for
            await asyncio.sleep(0.002)


class Source:
    """An installer without commands: what is appended is told to the feed as the job would."""

    def __init__(self, storage: Storage, feed: Feed) -> None:
        self._storage = storage
        self.feed = feed
        self.attempt = 0

    async def begin(self) -> None:
        self.attempt = await started(self._storage)
        self.feed.began(self.attempt)

    async def tell(self, *events: NewEvent) -> None:
        self.feed.published(self.attempt, await append(self._storage, self.attempt, *events))

    async def tell_all(self, batches: Sequence[Sequence[NewEvent]]) -> None:
        for batch in batches:
            await self.tell(*batch)
