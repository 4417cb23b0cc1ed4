from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from handlers.installer import record as record_module
from handlers.installer.feed import Feed
from handlers.installer.record import UNWRITTEN_BYTES, Record
from storage.database import Storage
from storage.errors import Unavailable
from storage.installer.events import Events, NewEvent, StoredEvent
from storage.transaction import Transaction
from tests.handlers.installer.reading import read, reading, until
from tests.storage.installer.work import SUCCEEDED, ids, line, lines, started, step

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def recording(storage: Storage, feed: Feed, *, patience_seconds: float = 30) -> AsyncIterator[Record]:
    """A record of a new attempt, which is written to its verdict."""
    attempt = await started(storage)
    feed.began(attempt)
    last_id = (await storage.installer.events.head()).last_id
    record = Record(storage.installer.events, feed, attempt, last_id, patience_seconds=patience_seconds)
    task = asyncio.create_task(record.run())
    try:
        yield record
        await task
    finally:
        task.cancel()


@pytest.fixture
def feed(storage: Storage) -> Feed:
    return Feed(storage.installer.events)


async def test_what_comes_while_a_commit_runs_is_the_next_one_s(
    storage: Storage, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    held = asyncio.Event()
    append = Events.append

    async def noted(of: Events, attempt: int, events: Sequence[NewEvent]) -> list[StoredEvent] | None:
        sizes.append(len(events))
        await held.wait()
        return await append(of, attempt, events)

    monkeypatch.setattr(Events, "append", noted)
    async with recording(storage, feed) as record:
        record.put(step("prepare", "started"))
        await until(lambda: sizes)
        for each in lines(50):
            record.put(each)
        record.put(SUCCEEDED)
        held.set()
    assert sizes == [1, 51]
    assert (await read(feed)).ids == list(range(1, 53))


async def test_who_writes_more_than_fits_waits_until_it_is_written(storage: Storage, feed: Feed) -> None:
    async with recording(storage, feed) as record:
        large = line("x" * 50_000)
        count = 0
        while record._unwritten <= UNWRITTEN_BYTES:
            record.put(large)
            count += 1
        waiting = asyncio.create_task(record.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        await waiting
        assert (await ids(storage)) == list(range(1, count + 1))
        record.put(SUCCEEDED)


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
async def test_a_commit_of_unknown_result_doubles_nothing_and_loses_nothing(
    storage: Storage, feed: Feed, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_module, "_FIRST_PAUSE", 0.01)
    failures = 0

    def fail(_: Transaction) -> None:
        nonlocal failures
        if failures < 3:
            failures += 1
            raise ConnectionError

    async with recording(storage, feed) as record:
        _, task = await reading(feed)
        record.put(step("prepare", "started"))
        await record.room()
        setattr(storage.writer.failure_points, point, fail)
        for each in lines(300):
            record.put(each)
        record.put(SUCCEEDED)
        sent = await task
    assert sent.ids == await ids(storage) == list(range(1, 303))
    assert [event["line"] for event in sent.events[1:-1]] == [each.line for each in lines(300)]


async def test_after_the_bound_of_patience_it_is_hopeless_and_still_tried(
    storage: Storage, feed: Feed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(record_module, "_FIRST_PAUSE", 0.01)
    append, away = Events.append, True

    async def sometimes(of: Events, attempt: int, events: Sequence[NewEvent]) -> Any:
        if away:
            raise Unavailable("away")
        return await append(of, attempt, events)

    monkeypatch.setattr(Events, "append", sometimes)
    async with recording(storage, feed, patience_seconds=0.05) as record:
        record.put(line())
        async with asyncio.timeout(20):
            await record.hopeless.wait()
        away = False
        record.put(SUCCEEDED)
    assert (await read(feed)).ids == [1, 2]
    assert [entry.getMessage() for entry in caplog.records] == ["storage: away"]


async def test_it_ends_where_another_process_has_ended_the_attempt(storage: Storage, feed: Feed) -> None:
    async with recording(storage, feed) as record:
        _, task = await reading(feed)
        record.put(line())
        await until(lambda: feed.last)
        await storage.installer.attempts.orphaned("elsewhere")
        record.put(line())
    sent = await task
    assert sent.ids == await ids(storage) == [1, 2]
    assert sent.events[-1]["detail"] == "elsewhere"
