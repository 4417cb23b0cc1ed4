from __future__ import annotations

import asyncio
import json

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from storage.execution.records import Wait
from storage.holds import HoldState
from storage.refusals import Refusal, Refused
from storage.runs import RUNS
from tests.storage.work import admit, rows

pytestmark = pytest.mark.anyio

NONE, BOTH = HoldState(False, False), HoldState(True, True)
REQUIRED, UNRESOLVED = Refused(Refusal.HOLD_REQUIRED), Refused(Refusal.RESTORE_UNRESOLVED)


async def release_admission(
    storage: Storage, *, complete: bool = True, fenced: bool = True, reference: str = "r-1"
) -> HoldState | Refused:
    return await storage.holds.release_admission(
        recovery_reference=reference, admission_history_complete=complete, prior_deployment_fenced=fenced
    )


async def test_nothing_is_held_at_first(storage: Storage) -> None:
    assert await storage.holds.state() == NONE


async def test_a_restore_sets_both_holds_and_each_is_released_by_its_own_operation(storage: Storage) -> None:
    assert await storage.holds.restore("restored") == BOTH
    assert await storage.holds.state() == BOTH
    assert await storage.holds.release_restore("done") == HoldState(True, False)
    assert await release_admission(storage) == NONE
    assert await storage.holds.state() == NONE


async def test_the_holds_may_be_released_the_other_way_round(storage: Storage) -> None:
    await storage.holds.restore("restored")
    assert await release_admission(storage) == HoldState(False, True)
    assert await storage.holds.release_restore("done") == NONE


async def test_a_hold_that_does_not_stand_cannot_be_released(storage: Storage) -> None:
    assert await storage.holds.release_restore("done") == REQUIRED
    assert await release_admission(storage) == REQUIRED
    assert await release_admission(storage, complete=False) == REQUIRED
    await storage.holds.restore("restored")
    await storage.holds.release_restore("done")
    assert await storage.holds.release_restore("done") == REQUIRED


@pytest.mark.parametrize(("complete", "fenced"), [(False, True), (True, False), (False, False)])
async def test_the_admission_hold_stays_while_the_recovery_is_unresolved(
    storage: Storage, complete: bool, fenced: bool
) -> None:
    await storage.holds.restore("restored")
    assert await release_admission(storage, complete=complete, fenced=fenced) == UNRESOLVED
    assert await storage.holds.state() == BOTH


async def test_every_change_is_audited_with_its_reason_and_nothing_else_is(storage: Storage, url: str) -> None:
    await storage.holds.release_restore("too early")
    await storage.holds.restore("restored \x00")
    await storage.holds.restore("again")
    await release_admission(storage, complete=False)
    await storage.holds.release_restore("done")
    await release_admission(storage, reference="r-\x01")
    told = [(row.action, row.subject, json.loads(row.body)) for row in rows(url, AUDIT)[1:]]
    assert told == [
        ("hold.restored", "holds", {"reason": "restored \x00"}),
        ("hold.execution-released", "holds", {"reason": "done"}),
        ("hold.admission-released", "holds", {"recoveryReference": "r-\x01"}),
    ]


async def test_changes_in_one_batch_see_one_another_in_their_order(storage: Storage) -> None:
    outcomes = await asyncio.gather(
        storage.holds.release_restore("too early"),
        storage.holds.restore("restored"),
        storage.holds.release_restore("done"),
        storage.holds.release_restore("again"),
        release_admission(storage),
    )
    assert list(outcomes) == [REQUIRED, BOTH, HoldState(True, False), REQUIRED, NONE]


async def test_a_restore_asks_for_a_review_of_every_live_run_once(storage: Storage, url: str) -> None:
    over, waits, in_hand, new = [(await admit(storage)).run_id for _ in range(4)]
    await storage.runs.cancel(over, "over")
    claims = await storage.execution.claims.take("local", 2)
    assert [claim.run_id for claim in claims] == [waits]
    await storage.execution.journal.take_up(claims[0])
    await storage.execution.journal.settle(claims[0], step_type="call", move=Wait(1 << 50))
    await storage.execution.claims.take("local", 1)
    await storage.holds.restore("restored")
    reviewed = {str(row.run_id) for row in rows(url, RUNS) if row.restore_review_required}
    assert reviewed == {waits, in_hand, new}
    await storage.holds.release_restore("done")
    await storage.execution.recoveries.retry_same(waits, reason="why", accept_repeat=True, readable=True)
    run = await storage.runs.get(waits)
    assert run is not None
    assert not run.restore_review_required
