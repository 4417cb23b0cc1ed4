from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from storage.errors import Unavailable, Unstorable
from storage.installer.events import PAGE_BYTES, Head, NewEvent, StoredEvent
from storage.installer.records import EVENTS
from storage.transaction import Transaction
from tests.storage.installer.work import (
    SUCCEEDED,
    append,
    appended,
    failed,
    ids,
    line,
    lines,
    started,
    step,
    told,
    whole,
)
from tests.storage.work import open_storage, rows

pytestmark = pytest.mark.anyio

# Line ends, U+0000, what is not ASCII, lone surrogates, nothing, and what SQL or JSON might take for its own.
TEXTS = (
    "a\r\nb\rc\nd\x0b\x0c\x1c\x85\u2028\u2029e",
    "\x00",
    "é \U0001f600",
    "a\ud800b\udc00c",
    "",
    "\"\\' %s ? :x $1",
)


def without(text: str) -> str:
    """The text with U+FFFD for each lone surrogate."""
    return "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)


async def test_an_attempt_goes_all_the_way(storage: Storage, url: str) -> None:
    attempt = await started(storage)
    before = len(rows(url, AUDIT))
    events = [step("prepare", "started"), line("hello"), step("prepare", "succeeded"), step("install", "started")]
    first = await append(storage, attempt, *events)
    assert [(event.id, event.type) for event in first] == [(1, "step"), (2, "log"), (3, "step"), (4, "step")]
    running = await storage.installer.attempts.latest()
    assert (running.state, running.last_event_id) == ("running", 4)
    assert [each.status for each in running.steps] == ["succeeded", "running"]
    assert await storage.installer.events.head() == Head(4, 1, True, None)
    last = await append(storage, attempt, step("install", "failed", "exit 1"), failed("install failed"))
    ended = await storage.installer.attempts.latest()
    assert (ended.state, ended.detail, ended.last_event_id) == ("failed", "install failed", 6)
    assert [each.status for each in ended.steps] == ["succeeded", "failed"]
    times = [ended.started_at, *(at for each in ended.steps for at in (each.started_at, each.ended_at)), ended.ended_at]
    known = [at for at in times if at is not None]
    assert known == sorted(known)
    assert len(known) == 6
    assert await storage.installer.events.head() == Head(6, 1, False, 6)
    assert await whole(storage) == first + last
    assert [row.action for row in rows(url, AUDIT)[before:]] == ["install.failed"]


async def test_a_body_has_what_belongs_to_its_event_and_nothing_else(storage: Storage) -> None:
    attempt = await started(storage)
    events = [step("prepare", "started"), line("x"), step("prepare", "failed", "no"), failed("why"), SUCCEEDED]
    stored = await append(storage, attempt, *events[:4])
    stored += await append(storage, await started(storage), SUCCEEDED)
    bodies = [told(event) for event in stored]
    at = bodies[0].pop("at")
    assert datetime.fromisoformat(at)
    assert len(at) == len("2026-01-01T00:00:00.000Z")
    for body in bodies[1:]:
        assert body.pop("at") >= at
    assert bodies == [
        {"id": 1, "attempt": 1, "type": "step", "step": "prepare", "status": "started"},
        {"id": 2, "attempt": 1, "type": "log", "step": "prepare", "line": "x"},
        {"id": 3, "attempt": 1, "type": "step", "step": "prepare", "status": "failed", "detail": "no"},
        {"id": 4, "attempt": 1, "type": "verdict", "outcome": "failed", "detail": "why"},
        {"id": 5, "attempt": 2, "type": "verdict", "outcome": "succeeded"},
    ]


async def test_text_of_every_kind_comes_back(storage: Storage) -> None:
    for text in TEXTS:
        attempt, after = await started(storage), (await storage.installer.events.head()).last_id
        stored = await append(storage, attempt, line(text), step("prepare", "failed", text), failed(text))
        assert stored == await whole(storage, after)
        assert [told(event).get("line", told(event).get("detail")) for event in stored] == [without(text)] * 3
        assert all(event.body.decode().splitlines() == [event.body.decode()] for event in stored)
        assert (await storage.installer.attempts.latest()).detail == without(text)


async def test_a_line_of_a_megabyte_comes_back(storage: Storage) -> None:
    attempt = await started(storage)
    long = "\x00é" * 500_000
    stored = await append(storage, attempt, line("before"), line(long), line("after"))
    assert [told(event)["line"] for event in await whole(storage)] == ["before", long, "after"]
    assert await whole(storage) == stored


async def test_nothing_is_appended_to_an_attempt_that_does_not_run(storage: Storage, url: str) -> None:
    append_to = storage.installer.events.append
    assert await append_to(1, [line()]) is None
    attempt = await started(storage)
    assert await append_to(attempt + 1, [line()]) is None
    assert await append_to(0, [line()]) is None
    await append(storage, attempt, SUCCEEDED)
    ended = await storage.installer.attempts.latest()
    before = len(rows(url, AUDIT))
    assert await append_to(attempt, [step("install", "started"), failed("late")]) is None
    assert await storage.installer.attempts.latest() == ended
    await started(storage)
    assert await append_to(attempt, [line()]) is None
    assert await ids(storage) == [1]
    assert len(rows(url, AUDIT)) == before + 2


async def test_what_follows_a_verdict_in_one_batch_of_the_writer_is_refused(storage: Storage) -> None:
    attempt = await started(storage)
    outcomes = await appended(storage, attempt, [line()], [line(), SUCCEEDED], [line()], [failed("late")])
    assert [outcome is None for outcome in outcomes] == [False, False, True, True]
    assert [event.id for outcome in outcomes for event in outcome or []] == [1, 2, 3]
    assert (await storage.installer.attempts.latest()).state == "succeeded"
    assert await ids(storage) == [1, 2, 3]


async def test_appending_nothing_is_nothing(storage: Storage) -> None:
    attempt = await started(storage)
    assert await append(storage, attempt) == []
    assert await storage.installer.events.head() == Head(0, 1, True, None)


async def test_events_that_no_attempt_can_have_fail_alone(storage: Storage) -> None:
    attempt = await started(storage)
    wrong = [SUCCEEDED, line()], [step("unknown", "started")], [NewEvent("step", step="prepare")], [NewEvent("verdict")]
    for number, events in enumerate(wrong):
        outcomes = await asyncio.gather(
            *(storage.installer.events.append(attempt, each) for each in ([line()], [line(), *events], [line()])),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [list, Unstorable, list]
        assert await ids(storage) == list(range(1, 2 * number + 3))
    assert (await storage.installer.attempts.latest()).state == "running"


async def test_ids_have_no_gaps_over_attempts_batches_and_restarts(
    storage: Storage, url: str, audit_file: Path
) -> None:
    seeded, count = random.Random(7), 0
    for _ in range(3):
        attempt = await started(storage)
        sizes = [seeded.choice([0, 1, 2, 15, 16, 17, 300]) for _ in range(8)]
        outcomes = await appended(storage, attempt, *map(lines, sizes))
        assert [len(outcome or []) for outcome in outcomes] == sizes
        async with open_storage(url, audit_file) as again:
            await append(again, attempt, line(), SUCCEEDED)
        count += sum(sizes) + 2
        assert await ids(storage) == list(range(1, count + 1))


async def test_what_is_rolled_back_leaves_no_gap(storage: Storage) -> None:
    attempt = await started(storage)

    def fail(transaction: Transaction) -> None:
        raise transaction.connection.dialect.loaded_dbapi.OperationalError("away")

    for _ in range(3):
        await append(storage, attempt, *lines(3))
        storage.writer.failure_points.before_commit = fail
        with pytest.raises(Unavailable):
            await append(storage, attempt, *lines(5), SUCCEEDED)
        storage.writer.failure_points.before_commit = None
    assert await ids(storage) == list(range(1, 10))
    assert await storage.installer.events.head() == Head(9, 1, True, None)


async def test_where_the_result_of_a_commit_is_unknown_the_head_tells(storage: Storage) -> None:
    attempt = await started(storage)

    def lose_the_answer(_: Transaction) -> None:
        raise ConnectionError

    storage.writer.failure_points.after_commit = lose_the_answer
    with pytest.raises(Unavailable):
        await append(storage, attempt, *lines(4))
    storage.writer.failure_points.after_commit = None
    assert (await storage.installer.events.head()).last_id == 4
    await append(storage, attempt, line())
    assert await ids(storage) == [1, 2, 3, 4, 5]


async def test_two_writers_at_once_leave_no_gap_and_a_reader_that_follows_misses_nothing(
    storage: Storage, url: str, audit_file: Path
) -> None:
    """Case 12: an id becomes visible only after every lower one."""
    attempt = await started(storage)
    followed: list[StoredEvent] = []

    async def write(into: Storage, name: str) -> None:
        for number in range(15):
            await append(into, attempt, *[line(f"{name} {number}")] * (1 + number % 3))

    async def follow(reader: Storage) -> None:
        while not followed or followed[-1].type != "verdict":
            followed.extend(await reader.installer.events.page(followed[-1].id if followed else 0, 7))

    async with open_storage(url, audit_file) as other:
        following = asyncio.create_task(follow(other))
        await asyncio.gather(write(storage, "a"), write(other, "b"), write(other, "c"))
        await append(storage, attempt, SUCCEEDED)
        await asyncio.wait_for(following, 30)
    assert [event.id for event in followed] == list(range(1, 92))
    assert followed == await whole(storage)
    for name in "abc":
        written = [told(event)["line"] for event in followed[:-1] if told(event)["line"].startswith(name)]
        assert written == [f"{name} {number}" for number in range(15) for _ in range(1 + number % 3)]


async def test_an_uncommitted_writer_holds_up_the_one_after_it(storage: Storage, url: str, audit_file: Path) -> None:
    """Case 12 step by step: while one has ids that are not committed, no reader sees and no writer gets later ones."""
    attempt = await started(storage)
    reached, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(_: Transaction) -> None:
        loop.call_soon_threadsafe(reached.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(timeout=60)

    async with open_storage(url, audit_file) as other:
        storage.writer.failure_points.before_commit = hold
        first = asyncio.create_task(append(storage, attempt, line("first")))
        await asyncio.wait_for(reached.wait(), 30)
        second = asyncio.create_task(append(other, attempt, line("second")))
        assert await asyncio.wait({second}, timeout=0.2) == (set(), {second})
        assert await other.installer.events.page(0, 10) == []
        go_on.set()
        assert [event.id for event in await first + await second] == [1, 2]


async def test_five_thousand_events_are_paged_from_anywhere(storage: Storage) -> None:
    attempt = await started(storage)
    stored = await append(storage, attempt, *lines(4999), SUCCEEDED)
    assert await whole(storage) == stored
    page = storage.installer.events.page
    assert await page(0, 1) == stored[:1]
    assert await page(4000, 256) == stored[4000:4256]
    assert await page(4990, 256) == stored[4990:]
    assert await page(0, 10_000) == stored
    for after in (5000, 5001, 2**63 - 1):
        assert await page(after, 256) == []


async def test_a_page_of_long_lines_ends_early_and_is_read_on(storage: Storage) -> None:
    attempt = await started(storage)
    long = "x" * (PAGE_BYTES // 4)
    stored = await append(storage, attempt, line(), *[line(long)] * 7, line("y" * 2 * PAGE_BYTES), *lines(3))
    page = storage.installer.events.page
    assert await page(0, 256) == stored[:5]
    assert await page(5, 256) == stored[5:9]
    assert await page(8, 256) == stored[8:9]
    assert await page(9, 256) == stored[9:]
    assert await whole(storage) == stored


async def test_any_number_of_appends_takes_a_few_statements(storage: Storage) -> None:
    attempt = await started(storage)
    counted: list[str] = []

    class Counting:
        """The driver's cursor, which tells of each statement."""

        def __init__(self, cursor: Any) -> None:
            self._cursor = cursor

        def execute(self, text: str, *parameters: Any) -> Any:
            counted.append(text.split(maxsplit=1)[0])
            return self._cursor.execute(text, *parameters)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cursor, name)

    work = storage.installer.events._stream.append

    def counting(transaction: Any, items: Sequence[Any]) -> Any:
        transaction.cursor = Counting(transaction.cursor)
        return work(transaction, items)

    storage.installer.events._stream.append = counting  # type: ignore[method-assign]
    await appended(storage, attempt, *[[line()]] * 16)
    assert counted == ["SELECT", "INSERT", "INSERT"]
    counted.clear()
    in_the_audit = ["INSERT", "INSERT"]
    await appended(storage, attempt, *[[line()]] * 14, [step("prepare", "started")], [SUCCEEDED])
    assert counted == ["SELECT", "INSERT", "INSERT", "UPDATE", *in_the_audit]


async def test_the_bodies_are_counted_where_each_begins(storage: Storage, url: str) -> None:
    attempt = await started(storage)
    for text in ("é", "\u2028", "plain"):
        await append(storage, attempt, *[line(text)] * 2)
    begins = 0
    for row in rows(url, EVENTS):
        assert row.begins == begins
        assert json.loads(row.body)["id"] == row.id
        begins += len(row.body.encode())
