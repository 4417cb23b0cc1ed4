from __future__ import annotations

import itertools
from typing import Any

import pytest

from storage.database import Storage
from storage.join.progress import follow
from storage.join.records import Failure, StepRecord
from storage.join.refusals import Refusal, Refused
from storage.join.registrations import RaftPlan
from tests.storage.join.work import (
    DONE,
    RAFTS_CHANGED,
    approved,
    joining,
    keep,
    raft_states,
    registered,
    report,
    standing,
    states,
    step,
)

pytestmark = pytest.mark.anyio

ALLOWED = {
    ("waiting", "running"),
    ("waiting", "done"),
    ("waiting", "failed"),
    ("running", "done"),
    ("running", "failed"),
}
PAIRS = list(itertools.product(("waiting", "running", "done", "failed"), ("running", "done", "failed")))
ORDER = Refused(Refusal.STEP_ORDER)


def record(status: Any) -> StepRecord:
    return StepRecord(step="services", status=status, message="before", started_at=1, ended_at=None)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_each_status_leads_where_the_contract_says(before: str, after: str) -> None:
    changed = follow({"services": record(before)}, [step("services", after, "after", 5)])
    if (before, after) in ALLOWED:
        assert changed is not None
        assert (changed["services"].status, changed["services"].message) == (after, "after")
    else:
        assert changed == ({} if before == after else None)


def test_done_implies_running_and_times_are_those_of_the_events() -> None:
    fresh = StepRecord(step="services", status="waiting", message=None, started_at=None, ended_at=None)

    def times(*events: Any) -> tuple[int | None, int | None]:
        changed = follow({"services": fresh}, events)
        assert changed is not None
        return changed["services"].started_at, changed["services"].ended_at

    assert times(step("services", "running", at=3)) == (3, None)
    assert times(step("services", "done", at=3)) == (3, 3)
    assert times(step("services", "running", at=3), step("services", "done", at=9)) == (3, 9)
    assert times(step("services", "running", at=9), step("services", "failed", at=-62_135_596_800_000)) == (
        9,
        -62_135_596_800_000,
    )


async def test_steps_are_stored_with_their_messages_and_times(storage: Storage) -> None:
    join_id = await joining(storage)
    await report(storage, join_id, step("services", "running", "begun \x00", 5))
    await report(storage, join_id, step("services", "running", "again", 6))
    await report(storage, join_id, step("services", "done", None, 7), step("complete", "running", "almost", 8))
    found = await standing(storage, join_id)
    assert found.steps[2:] == (
        StepRecord(step="services", status="done", message=None, started_at=5, ended_at=7),
        StepRecord(step="complete", status="running", message="almost", started_at=8, ended_at=None),
    )
    await report(storage, join_id, step("complete", "failed", "no \x00", 9))
    found = await standing(storage, join_id)
    assert found.failure == Failure("complete", "no \x00")
    assert found.steps[3] == StepRecord(step="complete", status="failed", message="no \x00", started_at=8, ended_at=9)


async def test_a_batch_with_one_step_out_of_order_stores_nothing(storage: Storage) -> None:
    join_id = await joining(storage)
    await report(storage, join_id, step("services", "done", at=1))
    before = await standing(storage, join_id)
    assert await report(storage, join_id, step("raft:control", "running"), step("services", "running")) == ORDER
    assert await report(storage, join_id, step("complete", "failed"), step("complete", "done")) == ORDER
    assert await standing(storage, join_id) == before
    assert await report(storage, join_id, step("services", "done")) == DONE
    assert await standing(storage, join_id) == before


async def test_the_plan_is_no_order_and_a_raft_reached_late_is_promoted_once_it_is_a_learner(storage: Storage) -> None:
    join_id = await joining(storage)
    assert await report(storage, join_id, step("complete", "done"), step("services", "done")) == DONE
    assert await report(storage, join_id, step("raft:store", "running"), step("raft:control", "running")) == (
        RAFTS_CHANGED
    )
    turn = await storage.join.rafts.turn()
    assert turn is not None
    assert [(raft.raft, raft.state, raft.reached) for raft in turn.rafts] == [
        ("control", "adding", 2),
        ("store", "adding", 1),
    ]
    await storage.join.rafts.added(join_id, "store", "1", [])
    assert await raft_states(storage, join_id) == ["adding", "promoting"]
    await keep(storage)
    assert await raft_states(storage, join_id) == ["voter", "voter"]
    assert await states(storage, join_id) == [("joining", 0)]
    await report(storage, join_id, step("raft:store", "done"), step("raft:control", "done"))
    assert await states(storage, join_id) == [("joined", None)]


async def test_a_join_is_joined_by_the_last_vote_where_that_comes_last(storage: Storage) -> None:
    join_id = await joining(storage)
    plan = (await standing(storage, join_id)).plan
    await report(storage, join_id, *(step(name, "done") for name in plan))
    for raft in ("control", "store"):
        await storage.join.rafts.added(join_id, raft, raft, [])
    await storage.join.rafts.promoted(join_id, "store")
    assert await states(storage, join_id) == [("joining", 0)]
    await storage.join.rafts.promoted(join_id, "control")
    assert await states(storage, join_id) == [("joined", None)]


async def test_a_join_without_rafts_is_joined_by_its_last_step(storage: Storage) -> None:
    join_id = await joining(storage, rafts=())
    assert await report(storage, join_id, step("services", "done")) == DONE
    assert await report(storage, join_id, step("complete", "done")) == RAFTS_CHANGED
    assert await states(storage, join_id) == [("joined", None)]


async def test_a_step_is_that_of_its_raft_also_where_the_raft_is_named_like_a_step(storage: Storage) -> None:
    join_id = await joining(storage, rafts=(RaftPlan("services", "ledger"), RaftPlan("complete", "ledger")))
    assert await report(storage, join_id, step("services", "running"), step("complete", "running")) == DONE
    assert await raft_states(storage, join_id) == ["absent", "absent"]
    await report(storage, join_id, step("raft:complete", "running"))
    assert await raft_states(storage, join_id) == ["absent", "adding"]


async def test_a_failed_step_takes_the_node_out_of_every_raft_that_it_reached(storage: Storage) -> None:
    join_id, waiting = await joining(storage), (await registered(storage)).join_id
    await approved(storage, waiting)
    await report(storage, join_id, step("raft:control", "done"))
    await keep(storage)
    failing = [step("raft:store", "running"), step("raft:store", "failed", "no disk"), step("services", "failed")]
    assert await report(storage, join_id, *failing) == RAFTS_CHANGED
    failed = await standing(storage, join_id)
    assert (failed.state, failed.position, failed.failure) == ("failed", None, Failure("raft:store", "no disk"))
    assert await raft_states(storage, join_id) == ["removing", "absent"]
    assert await states(storage, waiting) == [("approved", 1)]
    turn = await storage.join.rafts.turn()
    assert turn is not None
    assert (turn.join_id, turn.state) == (join_id, "failed")
    await storage.join.rafts.removed(join_id, "control")
    assert await raft_states(storage, join_id) == ["removed", "absent"]
    assert await states(storage, waiting) == [("joining", 0)]


async def test_a_failed_step_before_any_raft_ends_the_turn_at_once(storage: Storage) -> None:
    join_id, waiting = await joining(storage), (await registered(storage)).join_id
    await approved(storage, waiting)
    assert await report(storage, join_id, step("raft:control", "failed")) == RAFTS_CHANGED
    assert await states(storage, join_id, waiting) == [("failed", None), ("joining", 0)]
    assert (await standing(storage, join_id)).failure == Failure("raft:control", "the node gave no reason")
