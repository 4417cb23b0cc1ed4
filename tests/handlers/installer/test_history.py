from __future__ import annotations

import asyncio

import pytest

from handlers.installer import history as history_module
from handlers.installer.history import History
from storage.database import Storage
from storage.errors import Unavailable
from storage.installer.events import PAGE_BYTES, Events, StoredEvent
from tests.storage.installer.work import append, line, lines, started

pytestmark = pytest.mark.anyio


@pytest.fixture
def history(storage: Storage) -> History:
    return History(storage.installer.events)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What storage is asked for."""
    found: list[tuple[int, int]] = []
    page = Events.page

    async def noted(of: Events, after: int, limit: int) -> list[StoredEvent]:
        found.append((after, limit))
        return await page(of, after, limit)

    monkeypatch.setattr(Events, "page", noted)
    return found


async def walk(history: History, last: int, position: int = 0) -> int:
    """Go from a position to the last event; returns how many chunks that takes."""
    chunks = 0
    while position < last:
        chunk = await history.chunk(position)
        assert chunk.after <= position < chunk.last
        position, chunks = chunk.last, chunks + 1
    assert position == last
    return chunks


async def test_pages_are_read_once_wherever_readers_begin_in_them(
    storage: Storage, history: History, asked: list[tuple[int, int]]
) -> None:
    await append(storage, await started(storage), *lines(600))
    for position in (300, 0, 599, 255, 256):
        await walk(history, 600, position)
    assert asked == [(256, 256), (512, 256), (0, 256)]


async def test_a_page_that_had_an_end_when_it_was_read_goes_on(
    storage: Storage, history: History, asked: list[tuple[int, int]]
) -> None:
    attempt = await started(storage)
    await append(storage, attempt, *lines(3))
    await walk(history, 3)
    await append(storage, attempt, *lines(300))
    await walk(history, 303)
    assert asked == [(0, 256), (3, 253), (256, 256)]


async def test_pages_of_long_lines_end_early_and_readers_in_them_get_on(storage: Storage, history: History) -> None:
    attempt = await started(storage)
    for _ in range(4):
        await append(storage, attempt, *[line("x" * 60_000)] * 20)
    assert 4 * PAGE_BYTES < 80 * 60_000
    assert await walk(history, 80) == 80
    assert await walk(history, 80, 70) == 10
    assert await walk(history, 80, 30) == 50


async def test_what_is_kept_is_bounded_and_what_was_used_last_stays(
    storage: Storage, history: History, asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(storage, await started(storage), *lines(1024))
    monkeypatch.setattr(history_module, "CACHE_BYTES", 100_000)
    for position in (0, 256, 0, 512, 0, 768, 0):
        await history.chunk(position)
        assert history._size == sum(page.size for page in history._pages.values()) <= 100_000
    assert [after for after, _ in asked] == [0, 256, 512, 768]


async def test_one_of_many_that_leaves_does_not_take_the_page_from_the_others(
    storage: Storage, history: History, asked: list[tuple[int, int]]
) -> None:
    await append(storage, await started(storage), *lines(10))
    tasks = [asyncio.create_task(history.chunk(0)) for _ in range(5)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    assert {chunk.last for chunk in await asyncio.gather(*tasks[1:])} == {10}
    assert len(asked) == 1


async def test_a_page_that_could_not_be_read_is_read_again(
    storage: Storage, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(storage, await started(storage), *lines(10))

    async def away(*_: object) -> list[StoredEvent]:
        raise Unavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(Events, "page", away)
        with pytest.raises(Unavailable):
            await history.chunk(0)
    assert (await history.chunk(0)).last == 10


async def test_an_event_that_is_not_there_is_not_waited_for(history: History) -> None:
    with pytest.raises(LookupError):
        await history.chunk(5)
