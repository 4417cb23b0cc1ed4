from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Sequence

import pytest

from handlers.installer import feed as feed_module
from handlers.installer.feed import Feed, Reader
from handlers.installer.frames import CHUNK_BYTES
from handlers.installer.history import PAGE_EVENTS
from storage.database import Storage
from storage.errors import Unavailable
from storage.installer.events import Events, Head, StoredEvent
from tests.handlers.installer.reading import Reading, Source, read, reading, settled, until
from tests.storage.installer.work import SUCCEEDED, append, failed, line, lines, started, step, whole

pytestmark = pytest.mark.anyio


@pytest.fixture
def feed(storage: Storage) -> Feed:
    return Feed(storage.installer.events)


@pytest.fixture
async def source(storage: Storage, feed: Feed) -> Source:
    """A source with an attempt that runs."""
    made = Source(storage, feed)
    await made.begin()
    return made


async def test_an_event_is_sent_as_its_id_its_type_and_one_line_of_json(source: Source, storage: Storage) -> None:
    await source.tell(step("prepare", "started"), line("a\r\nb\u2028\0"), SUCCEEDED)
    sent = await read(source.feed)
    bodies = [event.body.decode() for event in await whole(storage)]
    assert sent.text.decode() == "".join(
        f"id: {number}\nevent: {kind}\ndata: {body}\n\n"
        for number, kind, body in zip([1, 2, 3], ["step", "log", "verdict"], bodies, strict=True)
    )
    assert sent.events[1]["line"] == "a\r\nb\u2028\0"


async def test_a_reader_gets_the_history_and_then_what_comes_and_ends_after_the_verdict(source: Source) -> None:
    await source.tell(*lines(10))
    late, task = await reading(source.feed, after=4)
    await settled()
    assert late.ids == [5, 6, 7, 8, 9, 10]
    await source.tell(line())
    await settled()
    assert (late.ids[-1], late.ended) == (11, False)
    await source.tell(SUCCEEDED)
    assert (await task).ids == list(range(5, 13))
    assert late.comments == 0


async def test_history_that_was_stored_by_another_process_is_read_from_storage(storage: Storage) -> None:
    attempt = await started(storage)
    await append(storage, attempt, *lines(1000), SUCCEEDED)
    for after in (0, 1, 255, 256, 257, 999, 1000):
        sent = await read(Feed(storage.installer.events), after)
        assert sent.ids == list(range(after + 1, 1002))


@pytest.mark.parametrize("recent_bytes", [0, 4_000, 2 << 20])
async def test_no_reader_misses_or_repeats_an_event_wherever_it_begins(
    source: Source, recent_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "RECENT_BYTES", recent_bytes)
    choice = random.Random(4)
    readers: list[tuple[int, asyncio.Task[Reading]]] = []
    for number in range(40):
        await source.tell(*lines(choice.randrange(1, 20)))
        after = choice.randrange(source.feed.last + 1)
        readers.append((after, (await reading(source.feed, after))[1]))
        if number % 3 == 0:
            await asyncio.sleep(0)
    await source.tell(SUCCEEDED)
    for after, task in readers:
        assert (await task).ids == list(range(after + 1, source.feed.last + 1))


async def test_a_slow_reader_gets_everything_though_its_events_are_no_longer_recent(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "RECENT_BYTES", 10_000)
    await source.tell(line())
    stream, sent = await source.feed.open(0), Reading()
    sent.chunks.append(await anext(stream))
    await source.tell_all([lines(50)] * 20)
    sent.chunks.append(await anext(stream))
    await source.tell_all([lines(50)] * 20)
    await source.tell(SUCCEEDED)
    assert (await sent.all(stream)).ids == list(range(1, 2003))


async def test_chunks_have_many_events_and_a_bound_and_a_large_event_is_one_by_itself(source: Source) -> None:
    await source.tell(*lines(2000), line("\0" * 20_000), *lines(3), SUCCEEDED)
    for sent in (await read(source.feed), await read(Feed(source.feed._events))):
        large = [chunk for chunk in sent.chunks if len(chunk) > CHUNK_BYTES]
        assert [chunk.count(b"\nevent: ") for chunk in large] == [1]
        assert len(sent.chunks) < 40
        assert sent.ids == list(range(1, 2006))


async def test_before_any_attempt_a_reader_waits_also_beyond_the_end(storage: Storage, feed: Feed) -> None:
    first, task = await reading(feed)
    beyond, beyond_task = await reading(feed, after=2)
    source = Source(storage, feed)
    await source.begin()
    await settled()
    assert not task.done()
    await source.tell(line(), line())
    await settled()
    assert (first.ids, beyond.ids) == ([1, 2], [])
    await source.tell(line(), SUCCEEDED)
    assert ((await task).ids, (await beyond_task).ids) == ([1, 2, 3, 4], [3, 4])


async def test_beyond_the_end_after_the_verdict_it_ends_at_once(source: Source, storage: Storage) -> None:
    await source.tell(SUCCEEDED)
    for after in (1, 2, 2**63 - 1):
        for feed in (source.feed, Feed(storage.installer.events)):
            assert (await read(feed, after)).chunks == []


async def test_beyond_the_end_while_it_runs_a_reader_waits_for_the_verdict(source: Source) -> None:
    sent, task = await reading(source.feed, after=2**63 - 1)
    await source.tell(*lines(3))
    await settled()
    assert not task.done()
    await source.tell(SUCCEEDED)
    await task
    assert sent.chunks == []


async def test_with_two_attempts_a_stream_ends_after_the_latest_verdict_alone(source: Source) -> None:
    await source.tell(line(), failed("x"))
    await source.begin()
    sent, task = await reading(source.feed)
    await settled()
    assert (sent.ids, task.done()) == ([1, 2], False)
    await source.tell(line(), SUCCEEDED)
    assert (await task).ids == [1, 2, 3, 4]
    assert [event["attempt"] for event in sent.events] == [1, 1, 2, 2]


async def test_a_stream_that_is_still_open_at_the_verdict_goes_on_with_a_new_attempt(source: Source) -> None:
    stream, sent = await source.feed.open(0), Reading()
    await source.tell(failed("x"))
    sent.chunks.append(await anext(stream))
    await source.begin()
    task = asyncio.create_task(sent.all(stream))
    await settled()
    assert not task.done()
    await source.tell(SUCCEEDED)
    assert (await task).ids == [1, 2]


async def test_a_verdict_that_is_told_after_the_next_attempt_began_ends_nobody(
    source: Source, storage: Storage
) -> None:
    sent, task = await reading(source.feed)
    stored = await append(storage, 1, failed("x"))
    await source.begin()
    source.feed.published(1, stored)
    await settled()
    assert (sent.ids, task.done()) == ([1], False)
    await source.tell(SUCCEEDED)
    assert (await task).ids == [1, 2]


async def test_a_stopping_server_sends_everything_up_to_the_last_event_and_ends(source: Source) -> None:
    waiting, waiting_task = await reading(source.feed)
    slow = await source.feed.open(0)
    await source.tell(*lines(1000))
    await source.tell(failed("stopped"))
    source.feed.stopped()
    assert (await waiting_task).ids == (await Reading().all(slow)).ids == list(range(1, 1002))
    assert waiting.events[-1]["detail"] == "stopped"


async def test_a_stop_without_a_verdict_ends_the_streams_too(source: Source) -> None:
    _, task = await reading(source.feed)
    await source.tell(line())
    source.feed.stopped()
    assert (await task).ids == [1]
    assert (await read(source.feed)).ids == [1]


async def test_silence_is_filled_with_comments_also_beyond_the_end_while_others_get_events(storage: Storage) -> None:
    source = Source(storage, Feed(storage.installer.events, comment_seconds=0.05))
    await source.begin()
    first, task = await reading(source.feed)
    beyond, beyond_task = await reading(source.feed, after=10_000)
    async with asyncio.timeout(20):
        await until(lambda: first.comments >= 2)
        comments = beyond.comments
        while beyond.comments < comments + 2:
            await source.tell(line())
            await asyncio.sleep(0.01)
        await source.tell(SUCCEEDED)
        await asyncio.gather(task, beyond_task)
    assert first.ids == list(range(1, source.feed.last + 1))
    assert beyond.events == []


async def test_a_reader_that_leaves_leaves_nothing_behind(source: Source) -> None:
    await source.tell(*lines(300))
    before = asyncio.all_tasks()
    tasks = [(await reading(source.feed, after))[1] for after in (0, 300, 10_000) for _ in range(20)]
    await settled()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    del tasks, task
    await settled()
    gc.collect()
    assert [found for found in gc.get_objects() if isinstance(found, Reader)] == []
    assert len(source.feed._waiting._readers) == 0
    assert asyncio.all_tasks() == before


async def test_what_is_committed_is_not_read_again_for_readers_at_the_head(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = [(await reading(source.feed))[1] for _ in range(20)]
    monkeypatch.setattr(Events, "page", None)
    monkeypatch.setattr(Events, "head", None)
    await source.tell_all([lines(20)] * 20)
    await source.tell(SUCCEEDED)
    assert {tuple((await task).ids) for task in readers} == {tuple(range(1, 402))}


async def test_recent_events_are_bounded_in_bytes(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "RECENT_BYTES", 200_000)
    for _ in range(50):
        await source.tell(line("x" * 30_000))
    assert sum(map(len, source.feed._recent)) == source.feed._recent_bytes <= 200_000


async def test_what_is_told_twice_is_sent_once_and_a_gap_is_read_from_storage(source: Source, storage: Storage) -> None:
    sent, task = await reading(source.feed)
    first, untold, third = [await append(storage, 1, *lines(3)) for _ in range(3)]
    source.feed.published(1, first)
    source.feed.published(1, first)
    source.feed.published(1, third)
    await source.feed.catch_up()
    await source.tell(SUCCEEDED)
    assert (await task).ids == list(range(1, 11))
    assert untold[0].id in sent.ids


async def test_what_another_process_has_stored_is_learned_by_catching_up(source: Source, storage: Storage) -> None:
    await source.tell(line())
    sent, task = await reading(source.feed)
    await append(storage, 1, line(), failed("elsewhere"))
    await source.feed.catch_up()
    assert (await task).ids == [1, 2, 3]
    assert sent.ended


async def test_a_look_that_was_overtaken_changes_nothing(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    await source.tell(line(), failed("x"))
    old = await source.feed._events.head()
    await source.begin()

    async def head(_: Events) -> Head:
        return old

    monkeypatch.setattr(Events, "head", head)
    await source.feed.catch_up()
    assert (source.feed.last, source.feed.ended) == (2, False)


async def test_a_stream_cannot_be_opened_while_storage_is_away_and_one_that_is_open_goes_on_later(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = await started(storage)
    await append(storage, attempt, *lines(600), SUCCEEDED)
    feed = Feed(storage.installer.events)
    page = Events.page

    async def away(*_: object) -> list[StoredEvent]:
        raise Unavailable("away")

    stream, sent = await feed.open(0), Reading()
    # What is read already is sent.
    while len(sent.ids) < PAGE_EVENTS:
        sent.chunks.append(await anext(stream))
    monkeypatch.setattr(Events, "page", away)
    monkeypatch.setattr(feed_module, "PAUSE_SECONDS", 0.01)
    with pytest.raises(Unavailable):
        await Feed(storage.installer.events).open(0)
    with pytest.raises(Unavailable):
        await feed.open(300)
    sent.chunks += [await anext(stream), await anext(stream)]
    assert sent.comments == 2
    monkeypatch.setattr(Events, "page", page)
    assert (await sent.all(stream)).ids == list(range(1, 602))


async def test_readers_at_the_same_place_share_what_is_read(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = await started(storage)
    await append(storage, attempt, *lines(1000), SUCCEEDED)
    asked: list[int] = []
    page = Events.page

    async def counted(of: Events, after: int, limit: int) -> Sequence[StoredEvent]:
        asked.append(after)
        return await page(of, after, limit)

    monkeypatch.setattr(Events, "page", counted)
    feed = Feed(storage.installer.events)
    tasks = [asyncio.create_task(read(feed)) for _ in range(50)]
    assert {tuple((await task).ids) for task in tasks} == {tuple(range(1, 1002))}
    assert asked == [0, 256, 512, 768]
