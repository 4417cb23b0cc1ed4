from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from storage.audit import AUDIT
from storage.connections import engine
from storage.database import Storage
from storage.execution.records import Advance, Wait
from storage.execution.rows import OUTBOX
from storage.refusals import Refusal, Refused
from storage.runs import RUNS, Inspection, Run, RunState, Started, Step
from tests.storage.work import NEW_RUN, OTHER_PACKAGE, admit, at_once, candidate, digest, rows, start

pytestmark = pytest.mark.anyio


async def started(storage: Storage, **changes: Any) -> Run:
    outcome = await storage.runs.start(start(**changes))
    assert isinstance(outcome, Started)
    return outcome.run


def execute(url: str, run_id: str, **values: Any) -> None:
    """Do to a run what an executor will do."""
    writing = engine(url, "write")
    with writing.begin() as connection:
        connection.execute(sa.update(RUNS).where(RUNS.c.run_id == UUID(run_id)).values(values))
    writing.dispose()


async def test_a_run_is_begun_once_by_its_key(storage: Storage, url: str) -> None:
    request = start()
    first = await storage.runs.start(request)
    assert isinstance(first, Started)
    assert first.new
    assert (first.run.state, first.run.workflow_id, first.run.step) == ("admitted", "case-follow-up", "wait")
    assert await storage.runs.start(request) == Started(first.run, new=False)
    [run], [work] = rows(url, RUNS), rows(url, OUTBOX)
    assert run.input == NEW_RUN.input
    assert (str(work.run_id), work.kind) == (first.run.run_id, "admitted")
    told = rows(url, AUDIT)[-1]
    assert (told.action, told.subject) == ("run.started", first.run.run_id)


async def test_a_key_with_another_request_is_refused(storage: Storage) -> None:
    request = start()
    await storage.runs.start(request)
    for other in (start(idempotency_key=request.idempotency_key),):
        assert await storage.runs.start(other) == Refused(Refusal.KEY_REUSED)


async def test_100_starts_with_one_key_at_once_are_one_run(storage: Storage, url: str) -> None:
    request = start()
    outcomes = await asyncio.gather(*(storage.runs.start(request) for _ in range(100)))
    assert len({outcome.run.run_id for outcome in outcomes if isinstance(outcome, Started)}) == 1
    assert len(rows(url, RUNS)) == 1


async def test_a_repeated_start_shows_the_run_as_it_is_now_whatever_holds_and_packages_are(storage: Storage) -> None:
    request = start()
    first = await storage.runs.start(request)
    assert isinstance(first, Started)
    await storage.runs.cancel(first.run.run_id, "over")
    await storage.holds.restore("restored")
    await storage.workflows.apply(OTHER_PACKAGE.digest, OTHER_PACKAGE.snapshot, OTHER_PACKAGE.definitions)
    again = await storage.runs.start(request)
    assert isinstance(again, Started)
    assert (again.run.run_id, again.run.state, again.new) == (first.run.run_id, "cancelled", False)


async def test_a_key_of_a_start_and_a_key_of_an_event_are_two(storage: Storage) -> None:
    await admit(storage, idempotency_key="k")
    assert (await started(storage, idempotency_key="k")).state == "admitted"


async def test_a_refused_start_leaves_its_key_free(storage: Storage, url: str) -> None:
    request = start(activation=digest("older"))
    assert await storage.runs.start(request) == Refused(Refusal.ACTIVATION_CHANGED)
    assert rows(url, RUNS) == []
    await started(storage, idempotency_key=request.idempotency_key)


@pytest.mark.parametrize("unknown", ["5d1f4a7e-3c52-7b90-8e61-0c2a9f47d813", "", "x", "0" * 31, "é" * 36, "\x00"])
async def test_an_unknown_run_is_none(storage: Storage, unknown: str) -> None:
    assert await storage.runs.get(unknown) is None
    assert await storage.runs.inspect(unknown) is None
    assert await storage.runs.cancel(unknown, "why") is None


async def test_runs_are_listed_newest_first(storage: Storage) -> None:
    outcomes = await at_once(storage, *(candidate() for _ in range(5)))
    last = await started(storage)
    newest_first = [last.run_id, *(outcome.run_id for outcome in reversed(outcomes))]  # type: ignore[union-attr]
    assert [run.run_id for run in await storage.runs.list(limit=100)] == newest_first
    assert [run.run_id for run in await storage.runs.list(limit=2)] == newest_first[:2]


async def test_a_list_goes_on_before_the_last_run_that_was_seen(storage: Storage) -> None:
    for _ in range(5):
        await started(storage)
    whole = await storage.runs.list(limit=100)
    seen: list[Run] = []
    while page := await storage.runs.list(limit=2, before=seen[-1].run_id if seen else None):
        seen += page
    assert seen == whole
    assert await storage.runs.list(limit=9, before=whole[1].run_id.upper()) == whole[2:]


async def test_a_list_before_something_else_than_an_id_is_an_error(storage: Storage) -> None:
    with pytest.raises(ValueError, match="UUID"):
        await storage.runs.list(limit=1, before="yesterday")


async def test_a_list_may_be_of_one_state(storage: Storage) -> None:
    over, live = await started(storage), await started(storage)
    await storage.runs.cancel(over.run_id, "over")
    assert [run.run_id for run in await storage.runs.list(limit=9, state="cancelled")] == [over.run_id]
    assert await storage.runs.list(limit=9, state="admitted") == [live]
    assert await storage.runs.list(limit=9, state="failed") == []


async def test_an_inspection_has_no_steps_before_runs_are_executed(storage: Storage) -> None:
    run = await started(storage)
    assert await storage.runs.inspect(run.run_id) == Inspection(run, steps=(), recovery=None)


@pytest.mark.parametrize("state", ["admitted", "waiting", "uncertain"])
async def test_a_run_on_which_no_executor_works_is_cancelled_at_once(
    storage: Storage, url: str, state: RunState
) -> None:
    run = await started(storage)
    execute(url, run.run_id, state=state, next_due_at=5)
    cancelled = await storage.runs.cancel(run.run_id, "a reason \x00 ")
    assert cancelled is not None
    assert (cancelled.state, cancelled.cancel_requested, cancelled.next_due_at) == ("cancelled", True, None)
    assert cancelled == await storage.runs.get(run.run_id)
    [row] = rows(url, RUNS)
    assert row.ended_at is not None
    assert [work.kind for work in rows(url, OUTBOX)] == ["admitted"]
    told = rows(url, AUDIT)[-1]
    assert (told.action, told.subject) == ("run.cancelled", run.run_id)
    assert json.loads(told.body) == {"reason": "a reason \x00 ", "state": state}


async def test_of_a_run_that_an_executor_has_in_hand_the_wish_is_noted_once(storage: Storage, url: str) -> None:
    run = await started(storage)
    execute(url, run.run_id, state="running")
    wished = await storage.runs.cancel(run.run_id, "why")
    assert wished is not None
    assert (wished.state, wished.cancel_requested) == ("running", True)
    told = rows(url, AUDIT)[-1]
    assert (told.action, json.loads(told.body)) == ("run.cancel-requested", {"reason": "why", "state": "running"})
    audited = len(rows(url, AUDIT))
    assert await storage.runs.cancel(run.run_id, "why") == wished
    assert [work.kind for work in rows(url, OUTBOX)] == ["admitted"]
    assert len(rows(url, AUDIT)) == audited


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
async def test_an_ended_run_comes_back_unchanged(storage: Storage, url: str, state: RunState) -> None:
    run = await started(storage)
    execute(url, run.run_id, state=state, ended_at=9, output='{"a":"\\u0000"}', outcome="done", failure_code="f.c")
    ended = await storage.runs.get(run.run_id)
    audited = len(rows(url, AUDIT))
    assert await storage.runs.cancel(run.run_id, "why") == ended
    assert ended is not None
    assert (ended.state, ended.output, ended.outcome) == (state, '{"a":"\\u0000"}', "done")
    assert (len(rows(url, AUDIT)), len(rows(url, OUTBOX))) == (audited, 1)


async def test_an_inspection_shows_the_steps_that_a_run_has_reached(storage: Storage) -> None:
    run = await started(storage)
    [claim] = await storage.execution.claims.take("local", 1)
    journal = storage.execution.journal
    await journal.take_up(claim)
    await journal.settle(claim, step_type="choose", move=Advance("next", None))
    await journal.take_up(claim)
    await journal.settle(claim, step_type="wait-until", move=Wait(1))
    inspection = await storage.runs.inspect(run.run_id.upper())
    assert inspection is not None
    assert inspection == Inspection(
        inspection.run,
        (
            Step(step="wait", type="choose", state="completed", attempts=()),
            Step(step="next", type="wait-until", state="waiting", attempts=()),
        ),
        None,
    )


async def test_a_run_that_is_cancelled_twice_at_once_is_cancelled_once(storage: Storage, url: str) -> None:
    run = await started(storage)
    outcomes = await asyncio.gather(*(storage.runs.cancel(run.run_id, "why") for _ in range(10)))
    assert len(set(outcomes)) == 1
    assert [work.kind for work in rows(url, OUTBOX)] == ["admitted"]
