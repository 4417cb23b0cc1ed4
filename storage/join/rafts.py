"""What the keeper of the turn works with: what is to be done in which raft, and what has come of it.

A raft's row may have moved on while the keeper worked, by a failed step or by an operator: then what it tells changes
only what is still true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import sqlalchemy as sa

from storage.committer import one_by_one
from storage.join import turns
from storage.join.records import JOINS, RAFTS, STEPS, Failure, Peer, from_json, maybe_json, raft_step, to_json
from storage.join.states import JoinState, RaftKind, RaftState
from storage.readers import Readers
from storage.transaction import Transaction
from storage.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftWork:
    """How far a join is with a raft, which is also what is to be done there.

    `before` are the ids of the raft's members before it was asked to take the join, None where it was not asked yet;
    `reached` counts the rafts in the order in which the join reached them, 0 where it did not.
    """

    raft: str
    kind: RaftKind
    state: RaftState
    member_id: str | None
    before: tuple[str, ...] | None
    reached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The join that has the turn, joining or failed; `beats` counts what it has shown of life."""

    join_id: str
    name: str
    address: str
    peer_urls: tuple[str, ...] | None
    state: JoinState
    beats: int
    rafts: tuple[RaftWork, ...]


class _Before(NamedTuple):
    join_id: UUID
    raft: str
    member_ids: tuple[str, ...]


class _Added(NamedTuple):
    join_id: UUID
    raft: str
    member_id: str
    peers: tuple[Peer, ...]


class _Told(NamedTuple):
    join_id: UUID
    raft: str
    text: str | None = None


class _Silence(NamedTuple):
    join_id: UUID
    beats: int
    reason: str


class Rafts:
    """Every method raises Unavailable and Overloaded; those that write raise AuditUnavailable and Unstorable too.

    Join ids are those of a Turn.
    """

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def turn(self) -> Turn | None:
        """The join that has the turn, its rafts in the order of its plan."""
        return await self._readers.read(_turn)

    async def next_expiry(self) -> int | None:
        """When the earliest of the pending joins expires, in epoch milliseconds."""
        return await self._readers.read(_next_expiry)

    async def expire(self) -> None:
        """End the joins that were not approved in time."""
        await self._writer.submit(_expire_many, None)

    async def note_before(self, join_id: str, raft: str, member_ids: Sequence[str]) -> bool:
        """Note the members that a raft had before the join, the first time; False where it is not to be added now."""
        return await self._writer.submit(_note_before_many, _Before(UUID(join_id), raft, tuple(member_ids)))

    async def added(self, join_id: str, raft: str, member_id: str, peers: Sequence[Peer]) -> bool:
        """The join is a learner of the raft, whose members `peers` are; False where it counts as removed already."""
        return await self._writer.submit(_added_many, _Added(UUID(join_id), raft, member_id, tuple(peers)))

    async def promoted(self, join_id: str, raft: str) -> None:
        """The join votes in the raft; with the last step and raft it is `joined`."""
        await self._writer.submit(_promoted_many, _Told(UUID(join_id), raft))

    async def removed(self, join_id: str, raft: str) -> None:
        """The failed join is not in the raft any more; with the last raft its turn is over."""
        await self._writer.submit(_removed_many, _Told(UUID(join_id), raft))

    async def trouble(self, join_id: str, raft: str, error: str | None) -> None:
        """Show what keeps the raft from changing, or that nothing does."""
        await self._writer.submit(_trouble_many, _Told(UUID(join_id), raft, error))

    async def refused(self, join_id: str, raft: str, reason: str) -> None:
        """The raft will never take the join, which fails by that."""
        await self._writer.submit(_refused_many, _Told(UUID(join_id), raft, reason))

    async def time_out(self, join_id: str, beats: int, reason: str) -> bool:
        """Fail the join in its turn, unless it has shown life since `beats`; return whether it failed by this."""
        return await self._writer.submit(_time_out_many, _Silence(UUID(join_id), beats, reason))


def _turn(connection: sa.Connection) -> Turn | None:
    # Written out, since SQLite uses a partial index only where the query repeats its condition.
    row = connection.execute(sa.select(JOINS).where(sa.text("joins.in_turn"))).first()
    if row is None:
        return None
    rafts = connection.execute(sa.select(RAFTS).where(RAFTS.c.join_id == row.join_id).order_by(RAFTS.c.place))
    return Turn(
        join_id=str(row.join_id),
        name=row.name,
        address=row.address,
        peer_urls=_maybe_tuple(row.peer_urls),
        state=row.state,
        beats=row.beats,
        rafts=tuple(
            RaftWork(
                raft=raft.raft,
                kind=raft.kind,
                state=raft.state,
                member_id=raft.member_id,
                before=_maybe_tuple(raft.before),
                reached=raft.reached,
            )
            for raft in rafts
        ),
    )


def _maybe_tuple(stored: str | None) -> tuple[str, ...] | None:
    return None if stored is None else tuple(from_json(stored))


def _next_expiry(connection: sa.Connection) -> int | None:
    found: int | None = connection.scalar(sa.select(sa.func.min(JOINS.c.expires_at)).where(JOINS.c.state == "pending"))
    return found


def _expire(transaction: Transaction, _: None) -> None:
    turns.expire_overdue(transaction)


def _note_before(transaction: Transaction, before: _Before) -> bool:
    join_id, raft, member_ids = before
    noted = RAFTS.update().where(RAFTS.c.join_id == join_id, RAFTS.c.raft == raft, RAFTS.c.before.is_(None))
    transaction.connection.execute(noted.values(before=to_json(member_ids)))
    return _state(transaction, join_id, raft) == "adding"


def _added(transaction: Transaction, added: _Added) -> bool:
    join_id, raft, member_id, peers = added
    completing = sa.select(STEPS.c.step).where(
        STEPS.c.join_id == join_id, STEPS.c.step == "complete", STEPS.c.status != "waiting"
    )
    onward: RaftState = "learner" if transaction.connection.execute(completing).first() is None else "promoting"
    listed = to_json([list(peer) for peer in peers])
    if _move(transaction, join_id, raft, "adding", state=onward, member_id=member_id, peers=listed, error=None):
        _beat(transaction, join_id)
        transaction.record("join.raft-added", str(join_id), {"memberId": member_id, "raft": raft})
        return True
    _move(transaction, join_id, raft, "removing", member_id=member_id)
    return _state(transaction, join_id, raft) != "removed"


def _promoted(transaction: Transaction, told: _Told) -> None:
    if _move(transaction, told.join_id, told.raft, "promoting", state="voter", error=None):
        _beat(transaction, told.join_id)
        transaction.record("join.raft-promoted", str(told.join_id), {"raft": told.raft})
        turns.join_if_done(transaction, told.join_id)


def _removed(transaction: Transaction, told: _Told) -> None:
    if _move(transaction, told.join_id, told.raft, "removing", state="removed", error=None):
        transaction.record("join.raft-removed", str(told.join_id), {"raft": told.raft})
        turns.pass_on_if_out(transaction, told.join_id)


def _trouble(transaction: Transaction, told: _Told) -> None:
    _move(transaction, told.join_id, told.raft, "adding", "promoting", "removing", error=maybe_json(told.text))


def _refused(transaction: Transaction, told: _Told) -> None:
    if _state(transaction, told.join_id, told.raft) in ("adding", "promoting"):
        turns.fail(transaction, told.join_id, Failure(raft_step(told.raft), told.text or ""))


def _time_out(transaction: Transaction, silence: _Silence) -> bool:
    alike = sa.select(JOINS.c.join_id).where(
        JOINS.c.join_id == silence.join_id, JOINS.c.state == "joining", JOINS.c.beats == silence.beats
    )
    if transaction.connection.execute(alike).first() is None:
        return False
    step = turns.running_step(transaction.connection, silence.join_id)
    turns.fail(transaction, silence.join_id, Failure(step, silence.reason))
    return True


_expire_many, _note_before_many, _added_many = one_by_one(_expire), one_by_one(_note_before), one_by_one(_added)
_promoted_many, _removed_many, _trouble_many = one_by_one(_promoted), one_by_one(_removed), one_by_one(_trouble)
_refused_many, _time_out_many = one_by_one(_refused), one_by_one(_time_out)


def _move(transaction: Transaction, join_id: UUID, raft: str, *states: RaftState, **values: object) -> bool:
    """Change the row of a raft if it is in one of the states; return whether it was."""
    row = RAFTS.update().where(RAFTS.c.join_id == join_id, RAFTS.c.raft == raft, RAFTS.c.state.in_(states))
    return transaction.connection.execute(row.values(values)).rowcount > 0


def _state(transaction: Transaction, join_id: UUID, raft: str) -> RaftState | None:
    query = sa.select(RAFTS.c.state).where(RAFTS.c.join_id == join_id, RAFTS.c.raft == raft)
    found: RaftState | None = transaction.connection.scalar(query)
    return found


def _beat(transaction: Transaction, join_id: UUID) -> None:
    """A raft that has changed renews the turn as a report does."""
    beating = JOINS.update().where(JOINS.c.join_id == join_id)
    transaction.connection.execute(beating.values(beats=JOINS.c.beats + 1))
