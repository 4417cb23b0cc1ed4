"""The events that are not among the recent ones: read in pages, each for all readers that want it at that time."""

from __future__ import annotations

import asyncio
from typing import Final

from handlers.installer.frames import Chunk, pack
from storage.installer.events import Events

# Pages begin at multiples of it, so that readers share them wherever they began.
PAGE_EVENTS: Final = 256
# What is kept of pages that were read.
CACHE_BYTES: Final = 8 << 20


class _Page:
    """Events that follow on each other; empty where there are none."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks
        for chunk in chunks:
            chunk.close()
        self.size = sum(map(len, chunks))

    def find(self, position: int) -> Chunk | None:
        """The chunk with the event that follows on `position`."""
        return next((chunk for chunk in self._chunks if chunk.after <= position < chunk.last), None)


class History:
    """The pages that were read last, within a bound in bytes."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._pages: dict[int, _Page] = {}
        self._size = 0
        self._loading: dict[tuple[int, int], asyncio.Task[_Page]] = {}

    async def chunk(self, position: int) -> Chunk:
        """The chunk with the event that follows on `position`, which is stored; raises Unavailable and Overloaded."""
        number = position // PAGE_EVENTS
        page = self._pages.get(number)
        if page is None:
            page = await self._load(number, number * PAGE_EVENTS)
        found = page.find(position)
        if found is None:
            # A page may have been read before this event was stored, and one of long lines ends early.
            found = (await self._load(number, position)).find(position)
        if found is None:
            raise LookupError(f"there is no event {position + 1}")
        self._use(number)
        return found

    async def _load(self, number: int, after: int) -> _Page:
        """Read a page once for all who want it now; that one of them leaves does not end it for the others."""
        task = self._loading.get((number, after))
        if task is None:
            task = asyncio.create_task(self._read(number, after))
            self._loading[number, after] = task
            task.add_done_callback(lambda done: self._loaded(number, after, done))
        return await asyncio.shield(task)

    async def _read(self, number: int, after: int) -> _Page:
        chunks: list[Chunk] = []
        pack(chunks, await self._events.page(after, (number + 1) * PAGE_EVENTS - after))
        return _Page(chunks)

    def _loaded(self, number: int, after: int, task: asyncio.Task[_Page]) -> None:
        del self._loading[number, after]
        # Asking for the exception keeps it from being complained of where all who waited have left.
        if not task.cancelled() and task.exception() is None:
            self._keep(number, task.result())

    def _keep(self, number: int, page: _Page) -> None:
        self._drop(number)
        self._pages[number] = page
        self._size += page.size
        while self._size > CACHE_BYTES:
            self._drop(next(iter(self._pages)))

    def _use(self, number: int) -> None:
        """Let a page be the last to be dropped."""
        if number in self._pages:
            self._pages[number] = self._pages.pop(number)

    def _drop(self, number: int) -> None:
        page = self._pages.pop(number, None)
        if page is not None:
            self._size -= page.size
