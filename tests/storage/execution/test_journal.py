from __future__ import annotations

import asyncio
import hashlib
import json

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from storage.errors import Unavailable, Unstorable
from storage.execution import doubt, progress
from storage.execution.records import Advance, Attempt, Claim, Doubt, End, Move, StepResult, Wait
from storage.execution.rows import ATTEMPTS, CLAIMS, COMMANDS, STEPS
from storage.runs import RUNS
from storage.transaction import Transaction
from tests.storage.execution.work import (
    DONE,
    FAILED,
    LATER,
    NEXT,
    brought_down,
    command,
    everything,
    run_of,
    sent,
    settle,
    steps_of,
    take,
    taken,
    taken_up,
    uncertain,
)
from tests.storage.work import NEW_RUN, digest, rows

pytestmark = pytest.mark.anyio

ALL = (RUNS, CLAIMS, STEPS, COMMANDS, ATTEMPTS)


async def test_a_run_is_taken_up_where_it_begins(storage: Storage) -> None:
    claim = await taken(storage)
    position = await taken_up(storage, claim)
    run = await run_of(storage, claim)
    assert (position.run_id, position.step, position.tries) == (claim.run_id, "wait", 1)
    assert (position.workflow_id, position.input) == ("case-follow-up", NEW_RUN.input)
    assert (position.definition_digest, position.binding_digest) == (digest("definition"), digest("binding"))
    assert (position.admitted_at, position.deadline_at) == (run.admitted_at, run.deadline_at)
    assert (position.results, position.command, position.attempts) == ({}, None, ())
    assert not any((position.cancel_requested, position.restore_review_required, position.repeat_accepted))


async def test_a_run_goes_from_step_to_step_under_one_claim_to_its_outcome(storage: Storage, url: str) -> None:
    claim = await taken(storage)
    assert await sent(storage, claim) == 1
    assert await settle(storage, claim, NEXT, "completed", 200)
    await taken_up(storage, claim)
    assert await storage.execution.journal.settle(claim, step_type="choose", move=Advance("last", None))
    position = await taken_up(storage, claim)
    assert (position.step, position.results) == ("last", {"wait": StepResult(200, '{"b":1}', 7)})
    assert not await storage.execution.journal.settle(claim, step_type="finish", move=DONE)
    run = await run_of(storage, claim)
    assert (run.state, run.step, run.outcome, run.output) == ("completed", "last", "done", '{"a":"\\u0000"}')
    assert (run.next_due_at, run.failure_code, run.uncertain) == (None, None, False)
    steps = await steps_of(storage, claim)
    assert [(step.step, step.type, step.state) for step in steps] == [
        ("wait", "call", "completed"),
        ("next", "choose", "completed"),
        ("last", "finish", "completed"),
    ]
    [attempt] = steps[0].attempts
    assert (attempt.number, attempt.kind, attempt.result, attempt.http_status) == (1, "send", "completed", 200)
    assert rows(url, CLAIMS) == []
    told = [(row.action, json.loads(row.body)) for row in rows(url, AUDIT)[2:]]
    body = "sha256:" + hashlib.sha256(command().body or b"").hexdigest()
    assert told == [
        ("call.prepared", {"body": body, "connection": "demo", "key": "k", "method": "POST"}),
        ("run.completed", {"outcome": "done"}),
    ]


async def test_the_first_command_of_a_step_stays(storage: Storage, url: str) -> None:
    claim = await taken(storage)
    assert await sent(storage, claim) == 1
    assert await sent(storage, claim, command(body=b"other")) == 2
    position = await taken_up(storage, claim)
    assert position.command == command()
    assert [(attempt.number, attempt.result) for attempt in position.attempts] == [
        (1, "interrupted"),
        (2, "interrupted"),
    ]
    assert [row.action for row in rows(url, AUDIT)].count("call.prepared") == 1


MOVES: tuple[tuple[Move, str, bool], ...] = (
    (NEXT, "running", False),
    (Wait(LATER), "waiting", False),
    (Wait(LATER, blocked=True), "waiting", False),
    (Doubt(LATER), "uncertain", True),
    (Doubt(None), "uncertain", True),
    (DONE, "completed", False),
    (FAILED, "failed", False),
)


async def test_each_move_leads_to_its_state_whatever_the_run_was_before(storage: Storage, url: str) -> None:
    async def before(kind: str) -> Claim:
        if kind == "new":
            return await taken(storage)
        if kind == "waiting":
            await settle(storage, await taken(storage), Wait(1))
        else:
            await uncertain(storage, due_at=1)
        [claim] = await take(storage)
        return claim

    for kind in ("new", "waiting", "uncertain"):
        for move, state, doubtful in MOVES:
            claim = await before(kind)
            position = await taken_up(storage, claim)
            assert await settle(storage, claim, move) is (state == "running")
            run = await run_of(storage, claim)
            # What was sent and never answered stays in doubt while its step only waits.
            stays = kind == "uncertain" and isinstance(move, Wait)
            assert (run.state, run.uncertain) == ("uncertain" if stays else state, doubtful or stays)
            assert (run.next_due_at is None) == (not isinstance(move, Wait | Doubt) or move.due_at is None)
            assert run.step == ("next" if move is NEXT else position.step)
            if state == "running":
                assert not await settle(storage, claim, DONE)
    assert [row.ended_at is None for row in rows(url, RUNS) if row.state in ("completed", "failed")] == [False] * 9


async def test_a_failed_run_tells_why_and_a_step_that_was_completed_all_the_same_keeps_its_result(
    storage: Storage, url: str
) -> None:
    refused, late = await taken(storage), await taken(storage)
    for claim in (refused, late):
        await sent(storage, claim)
    await settle(storage, refused, FAILED, "refused", 404)
    found = StepResult(200, "{}", 9)
    await settle(storage, late, End("failed", None, None, "deadline.passed", found), "completed", 200)
    assert [(await run_of(storage, claim)).failure_code for claim in (refused, late)] == [
        "call.refused",
        "deadline.passed",
    ]
    assert [(await steps_of(storage, claim))[0].state for claim in (refused, late)] == ["failed", "completed"]
    told = rows(url, AUDIT)[-1]
    assert (told.action, json.loads(told.body)) == ("run.failed", {"failureCode": "deadline.passed"})


async def test_a_doubt_is_audited_where_it_begins_and_not_at_each_attempt(storage: Storage, url: str) -> None:
    claim = await uncertain(storage, due_at=1)
    for _ in range(2):
        [again] = await take(storage)
        await sent(storage, again)
        await settle(storage, again, Doubt(1), "unanswered")
    assert [row.action for row in rows(url, AUDIT)].count("run.uncertain") == 1
    assert [attempt.number for attempt in (await steps_of(storage, claim))[0].attempts] == [1, 2, 3]


async def test_of_a_call_that_is_tried_again_and_again_the_newest_attempts_are_kept_and_what_explains_a_doubt(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (doubt, progress):
        monkeypatch.setattr(module, "MOST_ATTEMPTS", 3)
    claim = await uncertain(storage, due_at=1)
    for _ in range(9):
        [again] = await take(storage)
        await sent(storage, again)
        await settle(storage, again, Doubt(1), "not-connected")
    [step] = await steps_of(storage, claim)
    assert [attempt.number for attempt in step.attempts] == [1, 7, 8, 9, 10]
    assert (await run_of(storage, claim)).uncertain


async def test_dues_are_at_the_deadline_at_the_latest(storage: Storage) -> None:
    for move in (Wait(1 << 50), Doubt(1 << 50)):
        claim = await taken(storage)
        await taken_up(storage, claim)
        await settle(storage, claim, move)
        run = await run_of(storage, claim)
        assert run.next_due_at == run.deadline_at


async def test_tries_count_until_something_comes_of_them(storage: Storage) -> None:
    claim = await taken(storage)
    assert [(await taken_up(storage, claim)).tries for _ in range(3)] == [1, 2, 3]
    await storage.execution.journal.dispatch(claim, step_type="call", kind="send", command=command())
    assert (await taken_up(storage, claim)).tries == 1
    await settle(storage, claim, Wait(1))
    [claim] = await take(storage)
    assert (await taken_up(storage, claim)).tries == 1
    await settle(storage, claim, NEXT)
    assert (await taken_up(storage, claim)).tries == 1
    assert (await steps_of(storage, await brought_down(storage)))[0].state == "uncertain"


async def test_under_a_hold_an_attempt_ends_and_the_run_stops_at_its_next_durable_point(storage: Storage) -> None:
    goes_on, to_send, to_take_up, interrupted = [await taken(storage) for _ in range(4)]
    await sent(storage, goes_on)
    await taken_up(storage, to_send)
    await sent(storage, interrupted)
    await storage.holds.restore("restored")
    journal = storage.execution.journal
    assert not await settle(storage, goes_on, NEXT, "completed", 200)
    assert await journal.dispatch(to_send, step_type="call", kind="send", command=command()) is None
    assert await journal.take_up(to_take_up) is None
    assert await journal.take_up(interrupted) is None
    runs = [await run_of(storage, claim) for claim in (goes_on, to_send, to_take_up, interrupted)]
    assert [run.state for run in runs] == ["waiting", "waiting", "waiting", "uncertain"]
    assert [run.step for run in runs] == ["next", "wait", "wait", "wait"]
    assert await take(storage, 9) == []
    await storage.holds.release_restore("done")
    again = await take(storage, 9)
    assert {claim.run_id for claim in again} == {run.run_id for run in runs}
    for claim in again:
        position = await taken_up(storage, claim)
        assert (position.command is None) == (claim.run_id in (goes_on.run_id, to_send.run_id, to_take_up.run_id))
        assert position.restore_review_required


async def test_a_run_may_end_or_wait_while_execution_is_held(storage: Storage) -> None:
    done, later = await taken(storage), await taken(storage)
    for claim in (done, later):
        await taken_up(storage, claim)
    await storage.holds.restore("restored")
    await settle(storage, done, DONE)
    await settle(storage, later, Wait(1))
    ended = await run_of(storage, done)
    assert (ended.state, ended.restore_review_required) == ("completed", False)
    assert (await run_of(storage, later)).state == "waiting"


@pytest.mark.parametrize(
    ("move", "result", "state", "doubtful"),
    [
        (NEXT, "completed", "cancelled", False),
        (Wait(1), "not-connected", "cancelled", False),
        (Doubt(None), "unanswered", "cancelled", True),
        (FAILED, "refused", "cancelled", False),
        (DONE, None, "completed", False),
    ],
    ids=["advance", "wait", "doubt", "failed", "completed"],
)
async def test_a_run_that_is_cancelled_meanwhile_ends_once_the_attempt_has_ended(
    storage: Storage, url: str, move: Move, result: str | None, state: str, doubtful: bool
) -> None:
    claim = await taken(storage)
    await sent(storage, claim)
    await storage.runs.cancel(claim.run_id, "over")
    assert not await settle(storage, claim, move, result)  # type: ignore[arg-type]
    run = await run_of(storage, claim)
    assert (run.state, run.uncertain, run.cancel_requested, run.next_due_at) == (state, doubtful, True, None)
    assert rows(url, CLAIMS) == []
    [step] = await steps_of(storage, claim)
    assert step.state == ("completed" if move in (NEXT, DONE) else "cancelled")
    assert rows(url, AUDIT)[-1].action == f"run.{state}"


async def test_a_run_that_is_to_be_cancelled_sends_nothing_more(storage: Storage) -> None:
    to_take_up, to_send, interrupted = [await taken(storage) for _ in range(3)]
    await taken_up(storage, to_send)
    await sent(storage, interrupted)
    for claim in (to_take_up, to_send, interrupted):
        await storage.runs.cancel(claim.run_id, "over")
    journal = storage.execution.journal
    assert await journal.take_up(to_take_up) is None
    assert await journal.dispatch(to_send, step_type="call", kind="send", command=command()) is None
    assert await journal.take_up(interrupted) is None
    runs = [await run_of(storage, claim) for claim in (to_take_up, to_send, interrupted)]
    assert [(run.state, run.uncertain) for run in runs] == [("cancelled", False)] * 2 + [("cancelled", True)]


async def test_a_cancellation_that_races_with_a_settlement_comes_before_it_or_after(storage: Storage) -> None:
    for _ in range(10):
        claim = await taken(storage)
        await taken_up(storage, claim)
        settled, cancelled = await asyncio.gather(
            settle(storage, claim, Wait(5)), storage.runs.cancel(claim.run_id, "x")
        )
        assert not settled
        assert cancelled is not None
        assert (await run_of(storage, claim)).state == "cancelled"


async def test_many_entries_in_one_batch_have_their_own_outcomes(storage: Storage) -> None:
    claims = [await taken(storage) for _ in range(5)]
    positions = await asyncio.gather(*(storage.execution.journal.take_up(claim) for claim in claims))
    assert [position and position.run_id for position in positions] == [claim.run_id for claim in claims]
    outcomes = await asyncio.gather(
        settle(storage, claims[0], NEXT),
        settle(storage, claims[1], DONE),
        settle(storage, claims[1], NEXT),
        settle(storage, claims[2], Wait(1)),
    )
    assert list(outcomes) == [True, False, False, False]


async def test_where_a_crash_falls_before_a_commit_nothing_has_happened_and_after_it_all(
    storage: Storage, url: str
) -> None:
    claim = await taken(storage)
    journal, points = storage.execution.journal, storage.writer.failure_points
    entries = (
        lambda: journal.take_up(claim),
        lambda: journal.dispatch(claim, step_type="call", kind="send", command=command()),
        lambda: settle(storage, claim, NEXT, "completed", 200),
    )

    def fail(_: Transaction) -> None:
        raise ZeroDivisionError

    for entry in entries:
        before = everything(url, *ALL)
        points.before_commit = fail
        with pytest.raises(Unstorable):
            await entry()
        points.before_commit = None
        assert everything(url, *ALL) == before
        points.after_commit = fail
        with pytest.raises(Unavailable):
            await entry()
        points.after_commit = None
        assert everything(url, *ALL) != before
    position = await taken_up(storage, claim)
    assert (position.step, position.tries) == ("next", 1)
    [step] = await steps_of(storage, claim)
    assert [attempt.result for attempt in step.attempts] == ["completed"]


async def test_what_came_of_an_attempt_is_told_twice_and_counts_once(storage: Storage, url: str) -> None:
    claim = await taken(storage)
    await sent(storage, claim)
    assert await settle(storage, claim, NEXT, "completed", 200)
    before = everything(url, *ALL)
    assert not await settle(storage, claim, NEXT, "completed", 200)
    assert everything(url, *ALL) == before


async def test_a_step_of_which_no_executor_knows_the_type_is_not_shown(storage: Storage) -> None:
    claim = await taken(storage)
    await taken_up(storage, claim)
    assert not await storage.execution.journal.settle(claim, step_type=None, move=Wait(5, blocked=True))
    assert await steps_of(storage, claim) == ()
    assert (await run_of(storage, claim)).state == "waiting"


async def test_an_attempt_is_shown_while_it_is_under_way(storage: Storage) -> None:
    claim = await taken(storage)
    await sent(storage, claim)
    [step] = await steps_of(storage, claim)
    [attempt] = step.attempts
    assert (step.state, step.type) == ("running", "call")
    assert attempt == Attempt(
        number=1, kind="send", started_at=attempt.started_at, ended_at=None, result=None, http_status=None
    )
