"""How the join that has the turn comes along: the ways that a step may go, and the rafts that its steps lead to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from storage.join import turns
from storage.join.records import RAFTS, STEPS, Failure, StepRecord, maybe_json, raft_step, step_records
from storage.join.states import RaftState, StepStatus
from storage.transaction import Transaction

# What may come after each status.
_ONWARD: Final[dict[StepStatus, tuple[StepStatus, ...]]] = {
    "waiting": ("running", "done", "failed"),
    "running": ("done", "failed"),
    "done": (),
    "failed": (),
}

_SET_STEP = (
    STEPS.update()
    .where(STEPS.c.join_id == sa.bindparam("of_join"), STEPS.c.step == sa.bindparam("of_step"))
    .values({name: sa.bindparam(name) for name in ("status", "message", "started_at", "ended_at")})
)
_SET_RAFT = (
    RAFTS.update()
    .where(RAFTS.c.join_id == sa.bindparam("of_join"), RAFTS.c.raft == sa.bindparam("of_raft"))
    .values({name: sa.bindparam(name) for name in ("state", "reached")})
)


class StepEvent(NamedTuple):
    """What a node tells of a step; `at` is when that was, in epoch milliseconds."""

    step: str
    status: Literal["running", "done", "failed"]
    message: str | None
    at: int


@dataclass(slots=True)
class _Raft:
    name: str
    state: RaftState
    reached: int
    changed: bool = False


def follow(steps: dict[str, StepRecord], events: Iterable[StepEvent]) -> dict[str, StepRecord] | None:
    """The steps that the events change, as they are after all of them; None where one of them may not come then.

    What tells of a status that the step has already changes nothing.
    """
    changed: dict[str, StepRecord] = {}
    for event in events:
        record = changed.get(event.step) or steps[event.step]
        if event.status in _ONWARD[record.status]:
            changed[event.step] = _advanced(record, event)
        elif event.status != record.status:
            return None
    return changed


def _advanced(record: StepRecord, event: StepEvent) -> StepRecord:
    started_at = event.at if record.started_at is None else record.started_at
    ended_at = None if event.status == "running" else event.at
    return replace(record, status=event.status, message=event.message, started_at=started_at, ended_at=ended_at)


class Progress:
    """The steps and rafts of the join that has the turn, read once and written once in a transaction."""

    def __init__(self, transaction: Transaction, join_id: UUID) -> None:
        self._transaction = transaction
        self._join_id = join_id
        self._failure: Failure | None = None
        self._changed: set[str] = set()
        connection = transaction.connection
        self._steps = {record.step: record for record in step_records(connection, [join_id])[join_id]}
        rafts = sa.select(RAFTS.c.raft, RAFTS.c.state, RAFTS.c.reached).where(RAFTS.c.join_id == join_id)
        self._rafts = {raft_step(row.raft): _Raft(*row) for row in connection.execute(rafts)}

    @property
    def moves_turn(self) -> bool:
        """Whether the join has failed by what was taken, or is done."""
        return self._failure is not None or (
            all(record.status == "done" for record in self._steps.values())
            and all(raft.state == "voter" for raft in self._rafts.values())
        )

    def take(self, events: Sequence[StepEvent]) -> bool | None:
        """Take the step events of one report: all of them, or none where one may not come then, which is None.

        Returns whether that leaves work for the keeper: in a raft, or with a turn that passes on.
        """
        changed = follow(self._steps, events)
        if changed is None:
            return None
        self._steps |= changed
        self._changed |= changed.keys()
        for record in changed.values():
            told: dict[str, object] = {"status": record.status, "step": record.step}
            self._transaction.record("join.step", str(self._join_id), told)
        failed = next((event for event in events if event.status == "failed"), None)
        if failed is not None:
            # What the same report reached besides is nothing to be undone: no raft has heard of it.
            self._failure = Failure(failed.step, failed.message or "the node gave no reason")
            return True
        return self._reach(changed.keys()) or self.moves_turn

    def write(self) -> None:
        """Write what has changed, and let the turn pass on where it is over."""
        connection, join_id = self._transaction.connection, self._join_id
        if self._changed:
            connection.execute(_SET_STEP, [_step_values(join_id, self._steps[step]) for step in self._changed])
        rafts = [raft for raft in self._rafts.values() if raft.changed]
        if rafts:
            connection.execute(_SET_RAFT, [_raft_values(join_id, raft) for raft in rafts])
        if self._failure is not None:
            turns.fail(self._transaction, join_id, self._failure)
        elif self.moves_turn:
            turns.join_if_done(self._transaction, join_id)

    def _reach(self, steps: Iterable[str]) -> bool:
        """Note what the steps ask of the rafts: a step of a raft to be its learner, `complete` to vote wherever it is.

        A raft that it is only being added to when it completes follows once it is a learner (rafts.py).
        """
        wanted: list[_Raft] = []
        for step in steps:
            raft = self._rafts.get(step)
            if raft is not None and raft.state == "absent":
                raft.state, raft.reached = "adding", 1 + max(each.reached for each in self._rafts.values())
                wanted.append(raft)
            elif step == "complete":
                learners = [each for each in self._rafts.values() if each.state == "learner"]
                for learner in learners:
                    learner.state = "promoting"
                wanted += learners
        for raft in wanted:
            raft.changed = True
        return bool(wanted)


def _step_values(join_id: UUID, record: StepRecord) -> dict[str, object]:
    return {
        "of_join": join_id,
        "of_step": record.step,
        "status": record.status,
        "message": maybe_json(record.message),
        "started_at": record.started_at,
        "ended_at": record.ended_at,
    }


def _raft_values(join_id: UUID, raft: _Raft) -> dict[str, object]:
    return {"of_join": join_id, "of_raft": raft.name, "state": raft.state, "reached": raft.reached}
