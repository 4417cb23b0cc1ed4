from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from storage.execution.records import AttemptEnd, Claim, End, Move, Wait
from storage.execution.recovery import UncertainCall
from storage.execution.rows import ATTEMPTS, CLAIMS, COMMANDS, STEPS
from storage.refusals import Refusal, Refused
from storage.runs import RUNS, Run
from tests.storage.execution.work import (
    DONE,
    FAILED,
    NEXT,
    brought_down,
    command,
    ended,
    everything,
    run_of,
    sent,
    settle,
    stepping,
    steps_of,
    take,
    taken,
    taken_up,
    uncertain,
    waiting,
    waiting_at_call,
)
from tests.storage.work import admit, rows

pytestmark = pytest.mark.anyio

ALL = (RUNS, CLAIMS, STEPS, COMMANDS, ATTEMPTS, AUDIT)
HELD = command(recovery="hold-after-dispatch")
FOUND = AttemptEnd(result="receipt-found", http_status=200)


async def retry(storage: Storage, run_id: str, **changes: Any) -> Run | Refused | None:
    wish: dict[str, Any] = {"reason": "why \x00", "accept_repeat": False, "readable": True} | changes
    return await storage.execution.recoveries.retry_same(run_id, **wish)


async def reconcile(storage: Storage, call: UncertainCall, move: Any = NEXT) -> Run | Refused | None:
    return await storage.execution.recoveries.reconciled(
        call.run.run_id, call.mark, move=move, attempt=FOUND, started_at=5, reason="why \x00"
    )


async def uncertain_call(storage: Storage, claim: Claim) -> UncertainCall:
    call = await storage.execution.recoveries.uncertain_call(claim.run_id)
    assert isinstance(call, UncertainCall)
    return call


async def admitted(storage: Storage) -> Claim:
    return Claim((await admit(storage)).run_id, 0)


async def in_hand(storage: Storage) -> Claim:
    claim = await taken(storage)
    await sent(storage, claim)
    return claim


async def cancelled(storage: Storage) -> Claim:
    claim = await uncertain(storage)
    await storage.runs.cancel(claim.run_id, "over")
    return claim


async def failed(storage: Storage) -> Claim:
    return await ended(storage, FAILED)


async def blocked(storage: Storage) -> Claim:
    """A run whose definition cannot be read."""
    claim = await taken(storage)
    await taken_up(storage, claim)
    await storage.execution.journal.settle(claim, step_type=None, move=Wait(1 << 50, blocked=True))
    return claim


async def between_steps(storage: Storage) -> Claim:
    """A run that a hold stopped where a step was completed and the next had not begun."""
    claim = await taken(storage)
    await taken_up(storage, claim)
    await storage.holds.restore("restored")
    await settle(storage, claim, NEXT)
    await storage.holds.release_restore("done")
    await storage.holds.release_admission(
        recovery_reference="r", admission_history_complete=True, prior_deployment_fenced=True
    )
    return claim


async def test_what_is_no_run_is_none(storage: Storage) -> None:
    for unknown in ("5d1f4a7e-3c52-7b90-8e61-0c2a9f47d813", "", "é", "\x00"):
        assert await retry(storage, unknown) is None
        assert await storage.execution.recoveries.uncertain_call(unknown) is None
        assert (
            await storage.execution.recoveries.reconciled(
                unknown, "", move=NEXT, attempt=FOUND, started_at=1, reason=""
            )
            is None
        )


@pytest.mark.parametrize("reach", [admitted, in_hand, ended, failed, cancelled, waiting, between_steps])
async def test_what_neither_is_uncertain_nor_waits_at_a_call_is_not_retried(
    storage: Storage, url: str, reach: Callable[[Storage], Awaitable[Claim]]
) -> None:
    claim = await reach(storage)
    before = everything(url, *ALL)
    assert await retry(storage, claim.run_id, accept_repeat=True, readable=False) == Refused(Refusal.RETRY_REFUSED)
    assert await storage.execution.recoveries.uncertain_call(claim.run_id) == Refused(Refusal.RECONCILE_REFUSED)
    assert everything(url, *ALL) == before


@pytest.mark.parametrize("reach", [uncertain, waiting_at_call, blocked, brought_down])
async def test_a_run_that_is_stuck_is_due_at_once_and_its_step_begins_anew(
    storage: Storage, url: str, reach: Callable[[Storage], Awaitable[Claim]]
) -> None:
    claim = await reach(storage)
    doubtful = reach is uncertain
    assert await take(storage) == []
    run = await retry(storage, claim.run_id, accept_repeat=True)
    assert isinstance(run, Run)
    assert (run.state, run.uncertain) == ("uncertain" if doubtful else "waiting", doubtful)
    told = rows(url, AUDIT)[-1]
    assert (told.action, json.loads(told.body)) == (
        "run.retried",
        {"acceptRepeat": True, "reason": "why \x00", "step": "wait"},
    )
    [again] = await take(storage)
    position = await taken_up(storage, again)
    assert (again.run_id, position.tries, position.repeat_accepted) == (claim.run_id, 1, True)


async def test_a_retry_is_refused_in_the_documented_order(storage: Storage) -> None:
    claim = await uncertain(storage, what=HELD)
    await storage.holds.restore("restored")
    assert await retry(storage, claim.run_id, readable=False) == Refused(Refusal.EXECUTION_HELD)
    await storage.holds.release_restore("done")
    assert await retry(storage, claim.run_id, readable=False) == Refused(Refusal.DEFINITION_INCOMPATIBLE)
    assert await retry(storage, claim.run_id) == Refused(Refusal.REVIEW_REQUIRED)
    run = await retry(storage, claim.run_id, accept_repeat=True)
    assert isinstance(run, Run)
    assert not run.restore_review_required
    assert await retry(storage, claim.run_id) == Refused(Refusal.MUTATION_UNCERTAIN)


async def test_a_step_that_brought_the_executor_down_is_tried_anew_where_a_person_accepts_it(storage: Storage) -> None:
    claim = await brought_down(storage)
    assert await retry(storage, claim.run_id) == Refused(Refusal.EVALUATION_UNCERTAIN)
    assert isinstance(await retry(storage, claim.run_id, accept_repeat=True), Run)
    assert isinstance(await retry(storage, claim.run_id), Run)


async def test_what_was_not_sent_may_be_retried_whatever_the_connection(storage: Storage) -> None:
    claim = await taken(storage)
    await sent(storage, claim, HELD)
    await settle(storage, claim, Wait(1 << 50), "not-connected")
    assert isinstance(await retry(storage, claim.run_id), Run)


async def test_an_accepted_repeat_lasts_until_something_reached_the_receiver(storage: Storage) -> None:
    claim = await uncertain(storage, what=HELD)
    seen: list[bool] = []
    await retry(storage, claim.run_id, accept_repeat=True)
    for result in ("not-connected", "unanswered"):
        [claim] = await take(storage)
        seen.append((await taken_up(storage, claim)).repeat_accepted)
        await sent(storage, claim)
        await settle(storage, claim, Wait(1), result)
    [claim] = await take(storage)
    seen.append((await taken_up(storage, claim)).repeat_accepted)
    assert seen == [True, True, False]


async def test_an_accepted_repeat_in_which_the_executor_died_is_used_up(storage: Storage) -> None:
    claim = await uncertain(storage, what=HELD)
    await retry(storage, claim.run_id, accept_repeat=True)
    [claim] = await take(storage)
    await sent(storage, claim)
    assert not (await taken_up(storage, claim)).repeat_accepted


async def test_a_run_in_doubt_may_be_retried_when_its_deadline_has_passed(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = stepping(monkeypatch)
    claim = await uncertain(storage)
    step(7_200_000)
    run = await retry(storage, claim.run_id)
    assert isinstance(run, Run)
    assert run.next_due_at == run.deadline_at
    [again] = await take(storage)
    assert (await taken_up(storage, again)).repeat_accepted


@pytest.mark.parametrize("move", [NEXT, DONE], ids=["advance", "end"])
async def test_a_receipt_completes_the_step_and_the_run_goes_on(storage: Storage, url: str, move: Move) -> None:
    claim = await uncertain(storage)
    call = await uncertain_call(storage, claim)
    assert (call.run, call.position.command) == (await run_of(storage, claim), command())
    run = await reconcile(storage, call, move)
    assert isinstance(run, Run)
    over = isinstance(move, End)
    assert (run.state, run.step, run.uncertain) == (
        "completed" if over else "waiting",
        "wait" if over else "next",
        False,
    )
    [step] = await steps_of(storage, claim)
    assert step.state == "completed"
    first, receipt = step.attempts
    assert (receipt.number, receipt.kind, receipt.result, receipt.http_status) == (2, "receipt", "receipt-found", 200)
    assert (first.result, receipt.started_at) == ("unanswered", 5)
    told = next(row for row in rows(url, AUDIT) if row.action == "run.reconciled")
    assert json.loads(told.body) == {"reason": "why \x00", "step": "wait"}
    assert [each.run_id for each in await take(storage)] == ([] if over else [claim.run_id])


async def test_a_run_that_moved_meanwhile_is_not_reconciled(storage: Storage, url: str) -> None:
    claim = await uncertain(storage)
    call = await uncertain_call(storage, claim)
    await retry(storage, claim.run_id)
    [again] = await take(storage)
    assert await reconcile(storage, call) == Refused(Refusal.RECONCILE_RACED)
    await sent(storage, again)
    await settle(storage, again, Wait(1 << 50), "unanswered")
    before = everything(url, *ALL)
    assert await reconcile(storage, call) == Refused(Refusal.RECONCILE_RACED)
    assert everything(url, *ALL) == before
    assert isinstance(await reconcile(storage, await uncertain_call(storage, claim)), Run)


async def test_of_two_who_reconcile_at_once_one_does(storage: Storage) -> None:
    call = await uncertain_call(storage, await uncertain(storage))
    outcomes = await asyncio.gather(reconcile(storage, call), reconcile(storage, call))
    assert sum(isinstance(outcome, Run) for outcome in outcomes) == 1
    assert Refused(Refusal.RECONCILE_RACED) in outcomes


async def test_reconciling_is_refused_while_execution_is_held_or_where_nothing_was_sent(storage: Storage) -> None:
    claim, other = await uncertain(storage), await brought_down(storage)
    assert await storage.execution.recoveries.uncertain_call(other.run_id) == Refused(Refusal.RECONCILE_REFUSED)
    await storage.holds.restore("restored")
    assert await storage.execution.recoveries.uncertain_call(claim.run_id) == Refused(Refusal.EXECUTION_HELD)


async def test_inspecting_tells_how_a_call_recovers_while_it_is_uncertain_or_to_be_tried_again(
    storage: Storage,
) -> None:
    async def recovery(claim: Claim) -> str | None:
        inspection = await storage.runs.inspect(claim.run_id)
        assert inspection is not None
        return inspection.recovery

    assert await recovery(await uncertain(storage, what=HELD)) == "hold-after-dispatch"
    assert await recovery(await waiting_at_call(storage)) == "same-command"
    for reach in (in_hand, waiting, ended, cancelled, brought_down, admitted):
        assert await recovery(await reach(storage)) is None
