"""A join as it stands, read from its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import sqlalchemy as sa

from storage.join.states import JoinState, RaftKind, RaftState, Role, StepStatus
from storage.statements import table
from storage.tables import JoinRaftRow, JoinRow, JoinStepRow

JOINS, STEPS, RAFTS = table(JoinRow), table(JoinStepRow), table(JoinRaftRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step of the plan; `message` is that of the event which gave it its status, times are epoch milliseconds."""

    step: str
    status: StepStatus
    message: str | None
    started_at: int | None
    ended_at: int | None


class Peer(NamedTuple):
    """A member of a raft as a newcomer needs to know it."""

    name: str
    peer_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftRecord:
    """How a join stands with one raft; `error` is what keeps it from going on."""

    name: str
    kind: RaftKind
    state: RaftState
    member_id: str | None
    peers: tuple[Peer, ...]
    error: str | None


class Failure(NamedTuple):
    """Why a join failed or was rejected, and at which step, if at one."""

    step: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One join; times are epoch milliseconds, `plan` and `steps` are in the plan's order.

    `position` is 0 in its turn, counts from 1 in the order of approval, and is None in every other state.
    """

    join_id: str
    name: str
    role: Role
    address: str
    state: JoinState
    position: int | None
    plan: tuple[str, ...]
    steps: tuple[StepRecord, ...]
    rafts: tuple[RaftRecord, ...]
    registered_at: int
    expires_at: int
    approved_at: int | None
    turn_started_at: int | None
    ended_at: int | None
    failure: Failure | None
    certificate_expires_at: int


_EARLIER = JOINS.alias("earlier")

# Of the joins whose turn is to come, as many as were approved before this one, and itself.
_PLACE = (
    sa.select(sa.func.count())
    .select_from(_EARLIER)
    .where(_EARLIER.c.state == "approved", _EARLIER.c.approval <= JOINS.c.approval)
    .scalar_subquery()
)

_POSITION = sa.case((JOINS.c.state == "joining", 0), (JOINS.c.state == "approved", _PLACE)).label("position")

_COLUMNS = (
    "join_id",
    "name",
    "role",
    "address",
    "state",
    "registered_at",
    "expires_at",
    "approved_at",
    "turn_started_at",
    "ended_at",
    "certificate_expires_at",
)


def raft_step(raft: str) -> str:
    """The step of a plan that takes the node into a raft."""
    return f"raft:{raft}"


def to_json(value: object) -> str:
    """JSON text, in which U+0000 is an escape."""
    return orjson.dumps(value).decode()


def maybe_json(value: object) -> str | None:
    """JSON text, or None for None."""
    return None if value is None else to_json(value)


def from_json(stored: str | None) -> Any:
    """What the JSON text says; None where nothing was stored."""
    return None if stored is None else orjson.loads(stored)


def selection() -> sa.Select[Any]:
    """The query for joins that `registrations` reads; add a condition, an order and a limit to it."""
    return sa.select(*(JOINS.c[name] for name in _COLUMNS), JOINS.c.failure, _POSITION)


def registrations(connection: sa.Connection, query: sa.Select[Any]) -> list[Registration]:
    """The joins that a `selection` finds, with their steps and rafts."""
    rows = list(connection.execute(query))
    join_ids = [row.join_id for row in rows]
    steps, rafts = step_records(connection, join_ids), _raft_records(connection, join_ids)
    return [_registration(row, steps[row.join_id], rafts[row.join_id]) for row in rows]


def registration(connection: sa.Connection, join_id: UUID) -> Registration | None:
    """The join of this id."""
    found = registrations(connection, selection().where(JOINS.c.join_id == join_id))
    return found[0] if found else None


def position(connection: sa.Connection, join_id: UUID) -> int | None:
    """The `position` of a Registration by itself."""
    found: int | None = connection.scalar(sa.select(_POSITION).where(JOINS.c.join_id == join_id))
    return found


def step_records(connection: sa.Connection, join_ids: Sequence[UUID]) -> dict[UUID, tuple[StepRecord, ...]]:
    """The steps of each join in the order of its plan."""
    query = sa.select(STEPS).where(STEPS.c.join_id.in_(join_ids)).order_by(STEPS.c.join_id, STEPS.c.place)
    found: dict[UUID, tuple[StepRecord, ...]] = defaultdict(tuple)
    for row in connection.execute(query):
        found[row.join_id] += (
            StepRecord(
                step=row.step,
                status=row.status,
                message=from_json(row.message),
                started_at=row.started_at,
                ended_at=row.ended_at,
            ),
        )
    return found


def _raft_records(connection: sa.Connection, join_ids: Sequence[UUID]) -> dict[UUID, tuple[RaftRecord, ...]]:
    query = sa.select(RAFTS).where(RAFTS.c.join_id.in_(join_ids)).order_by(RAFTS.c.join_id, RAFTS.c.place)
    found: dict[UUID, tuple[RaftRecord, ...]] = defaultdict(tuple)
    for row in connection.execute(query):
        found[row.join_id] += (
            RaftRecord(
                name=row.raft,
                kind=row.kind,
                state=row.state,
                member_id=row.member_id,
                peers=tuple(Peer(*peer) for peer in from_json(row.peers)),
                error=from_json(row.error),
            ),
        )
    return found


def _registration(row: sa.Row[Any], steps: tuple[StepRecord, ...], rafts: tuple[RaftRecord, ...]) -> Registration:
    known = {name: getattr(row, name) for name in _COLUMNS}
    failure = from_json(row.failure)
    return Registration(
        **known | {"join_id": str(row.join_id)},
        position=row.position,
        plan=tuple(step.step for step in steps),
        steps=steps,
        rafts=rafts,
        failure=None if failure is None else Failure(*failure),
    )
