from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa

from storage.connections import engine
from storage.database import Storage
from storage.errors import Unavailable, Unstorable
from storage.execution.records import Advance, Claim, Doubt, Wait
from storage.execution.rows import ATTEMPTS, CLAIMS, COMMANDS, OUTBOX, STEPS
from storage.runs import RUNS
from storage.transaction import Transaction
from tests.storage.execution.work import (
    DONE,
    EXECUTOR,
    LATER,
    command,
    ended,
    everything,
    row_of,
    run_of,
    sent,
    settle,
    stepping,
    take,
    taken,
    taken_up,
    uncertain,
    waiting,
    waiting_at_call,
)
from tests.storage.work import admit, at_once, candidate, new_run, open_storage, rows, start

pytestmark = pytest.mark.anyio

ALL = (RUNS, OUTBOX, CLAIMS, STEPS, COMMANDS, ATTEMPTS)


async def test_new_runs_are_taken_in_their_order_and_are_running(storage: Storage, url: str) -> None:
    run_ids = [(await admit(storage)).run_id for _ in range(3)]
    first, last = await take(storage, 2), await take(storage, 9)
    assert [claim.run_id for claim in first + last] == run_ids
    assert [claim.seq for claim in first + last] == sorted({claim.seq for claim in first + last})
    assert await take(storage, 9) == []
    assert {run.state for run in await storage.runs.list(limit=9)} == {"running"}
    assert rows(url, OUTBOX) == []
    assert await storage.execution.claims.held_by(EXECUTOR) == first + last
    assert await storage.execution.claims.held_by("other") == []


async def test_runs_that_are_due_come_first_the_longest_due_of_them_before_the_others(storage: Storage) -> None:
    claims = [await taken(storage) for _ in range(3)]
    for claim, due in zip(claims, (30, 10, 20), strict=True):
        await settle(storage, claim, Wait(due))
    new = await admit(storage)
    assert [claim.run_id for claim in await take(storage, 9)] == [
        *(claims[place].run_id for place in (1, 2, 0)),
        new.run_id,
    ]


async def test_a_run_that_was_cancelled_before_anybody_took_it_is_passed_over(storage: Storage, url: str) -> None:
    over, left = await admit(storage), await admit(storage)
    await storage.runs.cancel(over.run_id, "over")
    assert [claim.run_id for claim in await take(storage, 9)] == [left.run_id]
    assert rows(url, OUTBOX) == []


async def test_nothing_is_taken_before_it_is_due_or_while_execution_is_held(storage: Storage) -> None:
    claims = storage.execution.claims
    assert await claims.next_due() is None
    await waiting(storage)
    deadline = (await storage.runs.list(limit=1))[0].deadline_at
    assert await claims.next_due() == deadline
    due = await uncertain(storage, due_at=5)
    assert await claims.next_due() == 5
    await admit(storage)
    assert await claims.next_due() == 0
    await storage.holds.restore("restored")
    assert await take(storage, 9) == []
    assert await claims.next_due() is None
    await storage.holds.release_restore("done")
    assert [claim.run_id for claim in await take(storage, 1)] == [due.run_id]


async def test_a_number_is_never_given_again(storage: Storage) -> None:
    last = 0
    for _ in range(3):
        claim = await ended(storage)
        assert claim.seq > last
        last = claim.seq


async def test_a_claim_that_was_renewed_or_adopted_can_write_nothing(storage: Storage, url: str) -> None:
    claims, journal = storage.execution.claims, storage.execution.journal
    renewed, adopted = await taken(storage), await taken(storage)
    for claim in (renewed, adopted):
        await sent(storage, claim)
    anew = await claims.renew(renewed)
    assert anew is not None
    assert (anew.run_id, anew.seq > adopted.seq) == (renewed.run_id, True)
    await claims.renew(anew)
    assert await claims.adopt(EXECUTOR, "other") == 2
    before = everything(url, *ALL)
    for old in (renewed, anew, adopted):
        assert await journal.take_up(old) is None
        assert await journal.dispatch(old, step_type="call", kind="send", command=command()) is None
        for move in (Advance("next", None), Wait(1), Doubt(None), DONE):
            assert not await settle(storage, old, move, "completed")
        assert await claims.renew(old) is None
    assert everything(url, *ALL) == before
    assert await claims.held_by(EXECUTOR) == []
    assert {claim.run_id for claim in await claims.held_by("other")} == {renewed.run_id, adopted.run_id}
    for claim in await claims.held_by("other"):
        assert [attempt.result for attempt in (await taken_up(storage, claim)).attempts] == ["interrupted"]


async def test_a_claim_is_known_by_run_and_number_together(storage: Storage) -> None:
    claim, other = await taken(storage), await taken(storage)
    assert await storage.execution.journal.take_up(Claim(claim.run_id, other.seq)) is None
    assert await storage.execution.claims.renew(Claim(claim.run_id, other.seq)) is None


async def test_of_two_executors_that_take_at_once_each_run_has_one(storage: Storage, url: str, tmp_path: Path) -> None:
    await at_once(storage, *(candidate() for _ in range(500)))

    async def take_all(by: Storage, executor: str) -> list[Claim]:
        found: list[Claim] = []
        while some := await by.execution.claims.take(executor, 16):
            found += some
        return found

    async with (
        open_storage(url, tmp_path / "one.jsonl", node="one", pace_seconds=0.005) as one,
        open_storage(url, tmp_path / "two.jsonl", node="two", pace_seconds=0.005) as two,
    ):
        mine, theirs = await asyncio.gather(take_all(one, "one"), take_all(two, "two"))
    assert mine
    assert theirs
    assert len({claim.run_id for claim in mine + theirs}) == len(mine + theirs) == 500
    assert await storage.execution.claims.held_by("one") == mine


async def test_what_is_asked_for_at_once_in_one_batch_is_given_once(storage: Storage) -> None:
    await at_once(storage, *(candidate() for _ in range(10)))
    outcomes = await asyncio.gather(*(take(storage, 3) for _ in range(5)))
    assert [len(claims) for claims in outcomes] == [3, 3, 3, 1, 0]


async def test_a_beat_counts_up_and_so_does_to_be_enlisted_again(storage: Storage) -> None:
    claims = storage.execution.claims
    for executor in ("one", "two", "idle"):
        await claims.enlist(executor)
        await admit(storage)
    await claims.take("one", 1)
    await claims.take("two", 1)
    await claims.beat("two")
    await claims.beat("unknown")
    before = await claims.beats()
    await claims.enlist("one")
    assert (before, await claims.beats()) == ({"one": 0, "two": 1}, {"one": 1, "two": 1})


async def test_blocked_runs_are_due_when_they_are_unblocked_and_no_others(storage: Storage, url: str) -> None:
    blocked = await waiting_at_call(storage, blocked=True)
    other = await waiting_at_call(storage)
    assert (await run_of(storage, blocked)).next_due_at == (await run_of(storage, blocked)).deadline_at
    assert await take(storage, 9) == []
    await storage.execution.claims.unblock()
    assert [claim.run_id for claim in await take(storage, 9)] == [blocked.run_id]
    assert [row_of(url, claim.run_id).blocked for claim in (blocked, other)] == [False, False]


async def test_a_clock_that_jumps_forward_makes_runs_due_and_one_that_jumps_back_loses_none(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = stepping(monkeypatch)
    claim = await taken(storage)
    await settle(storage, claim, Wait((await run_of(storage, claim)).admitted_at + 1_800_000))
    assert await take(storage) == []
    step(3_600_000)
    [again] = await take(storage)
    step(-7_200_000)
    assert (await taken_up(storage, again)).tries == 1
    await settle(storage, again, Wait(1))
    assert [claim.run_id for claim in await take(storage)] == [claim.run_id]


async def test_a_run_by_hand_is_taken_as_one_of_an_event_is(storage: Storage) -> None:
    await storage.runs.start(start())
    assert len(await take(storage)) == 1


async def test_the_longest_input_comes_back_as_it_was_given(storage: Storage) -> None:
    text = '"' + "x\\u0000é" * 14_563 + '"'
    assert 131_000 < len(text.encode()) <= 131_072
    claim = await taken(storage, run=new_run(input=text))
    assert (await taken_up(storage, claim)).input == text


async def test_what_fails_before_its_commit_has_not_happened_and_can_be_asked_again(storage: Storage, url: str) -> None:
    run = await admit(storage)
    before = everything(url, *ALL)

    def fail(_: Transaction) -> None:
        raise ZeroDivisionError

    storage.writer.failure_points.before_commit = fail
    with pytest.raises(Unstorable):
        await take(storage)
    storage.writer.failure_points.before_commit = None
    assert everything(url, *ALL) == before
    assert [claim.run_id for claim in await take(storage)] == [run.run_id]


async def test_a_claim_of_which_the_executor_never_heard_is_found_as_its_own(storage: Storage) -> None:
    run = await admit(storage)

    def fail(_: Transaction) -> None:
        raise ZeroDivisionError

    storage.writer.failure_points.after_commit = fail
    with pytest.raises(Unavailable):
        await take(storage)
    storage.writer.failure_points.after_commit = None
    [claim] = await storage.execution.claims.held_by(EXECUTOR)
    assert claim.run_id == run.run_id
    assert await taken_up(storage, claim)


async def test_what_is_due_is_found_by_an_index(sqlite_url: str) -> None:
    reading = engine(sqlite_url, "read")
    with reading.connect() as connection:
        due = sa.text("EXPLAIN QUERY PLAN SELECT run_id FROM runs WHERE next_due_at <= 5 ORDER BY next_due_at LIMIT 8")
        [(*_, step)] = connection.execute(due).all()
    reading.dispose()
    assert "USING INDEX runs_by_due" in step


async def test_a_run_is_claimed_once_whatever_is_tried(storage: Storage, url: str) -> None:
    claim = await taken(storage)
    writing = engine(url, "write")
    with pytest.raises(sa.exc.IntegrityError), writing.begin() as connection:
        connection.execute(CLAIMS.insert().values(run_id=UUID(claim.run_id), executor="other"))
    writing.dispose()


async def test_a_wait_is_never_due_after_the_deadline(storage: Storage) -> None:
    claim = await waiting(storage)
    run = await run_of(storage, claim)
    assert LATER > run.deadline_at == run.next_due_at
