"""Registrations: a token spent once makes a join, which the operator approves or rejects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

import sqlalchemy as sa

from storage.committer import one_by_one
from storage.identifiers import parse
from storage.join import turns
from storage.join.records import (
    JOINS,
    RAFTS,
    STEPS,
    Failure,
    Peer,
    RaftRecord,
    Registration,
    StepRecord,
    maybe_json,
    raft_step,
    registration,
    registrations,
    selection,
)
from storage.join.refusals import Refusal, Refused
from storage.join.states import JoinState, RaftKind, Role
from storage.join.tokens import TOKENS
from storage.readers import Readers
from storage.transaction import Transaction
from storage.writer import Writer

__all__ = [
    "Failure",
    "Identity",
    "JoinState",
    "Newcomer",
    "Peer",
    "RaftPlan",
    "RaftRecord",
    "Registered",
    "Registration",
    "Registrations",
    "Role",
    "StepRecord",
]

# Milliseconds in which a join is to be approved, and those for which a certificate is good.
APPROVAL_TIME: Final = 24 * 3_600_000
CERTIFICATE_TIME: Final = 7 * 24 * 3_600_000


class RaftPlan(NamedTuple):
    """A raft that a newcomer is to be taken into."""

    name: str
    kind: RaftKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A node that asks to join by a token; `pin` is the hex SHA-256 of its key's SubjectPublicKeyInfo."""

    token_id: str
    pin: str
    name: str
    role: Role
    address: str
    peer_urls: tuple[str, ...] | None
    rafts: tuple[RaftPlan, ...]

    @property
    def plan(self) -> tuple[str, ...]:
        """The steps that it is to report."""
        return *(raft_step(raft.name) for raft in self.rafts), "services", "complete"


@dataclass(frozen=True, slots=True)
class Registered:
    """The join that the token stands for; `new` is False where its key had it already."""

    registration: Registration
    new: bool


@dataclass(frozen=True, slots=True)
class Identity:
    """The key of a join and the steps of its plan, neither of which ever changes."""

    pin: str
    plan: tuple[str, ...]


class _Approval(NamedTuple):
    join_id: UUID
    role: Role | None
    address: str | None


class _Rejection(NamedTuple):
    join_id: UUID
    reason: str


_Answer = TypeVar("_Answer")
Decided: TypeAlias = Registration | Refused | None


class Registrations:
    """Every method raises Unavailable and Overloaded; those that write raise AuditUnavailable and Unstorable too.

    Where there is no join of an id, also for text that is no UUID, the answer is None.
    """

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def register(self, newcomer: Newcomer) -> Registered | Refused:
        """Spend a token on a join, or find the live join that this key has spent it on, with a certificate anew.

        TOKEN_REFUSED where the token is unknown, revoked, expired or spent otherwise; NAME_TAKEN, which does not spend
        it, where a live join has the name.
        """
        return await self._writer.submit(_register_many, newcomer)

    async def identity(self, join_id: str) -> Identity | None:
        """The key and the plan of a join."""
        return await self._read(join_id, _identity)

    async def get(self, join_id: str) -> Registration | None:
        """A join as it stands."""
        return await self._read(join_id, registration)

    async def list(self, *, state: JoinState | None, limit: int) -> list[Registration]:
        """At most `limit` joins, oldest first."""
        query = selection().order_by(JOINS.c.join_id).limit(limit)
        if state is not None:
            query = query.where(JOINS.c.state == state)
        return await self._readers.read(lambda connection: registrations(connection, query))

    async def approve(self, join_id: str, *, role: Role | None, address: str | None) -> Decided:
        """Queue a pending join for its turn, which it has at once where nobody has it; None keeps what it asked for.

        One that is approved, joining or joined comes back unchanged. STATE_CONFLICT where it has ended otherwise,
        APPROVAL_REFUSED with the fields where another live join has the given role or address.
        """
        found = parse(join_id)
        return None if found is None else await self._writer.submit(_approve_many, _Approval(found, role, address))

    async def reject(self, join_id: str, reason: str) -> Decided:
        """End a join: before its turn as rejected, in its turn as failed; STATE_CONFLICT where it has ended."""
        found = parse(join_id)
        return None if found is None else await self._writer.submit(_reject_many, _Rejection(found, reason))

    async def renew(self, join_id: str) -> int | Refused | None:
        """The end of a certificate that is issued now (epoch milliseconds, a whole second), once that is durable.

        ENDED where the join has ended, unless as joined.
        """
        found = parse(join_id)
        return None if found is None else await self._writer.submit(_renew_many, found)

    async def _read(self, join_id: str, query: Callable[[sa.Connection, UUID], _Answer | None]) -> _Answer | None:
        found = parse(join_id)
        return None if found is None else await self._readers.read(lambda connection: query(connection, found))


def _register(transaction: Transaction, newcomer: Newcomer) -> Registered | Refused:
    turns.expire_overdue(transaction)
    connection = transaction.connection
    token = connection.execute(
        sa.select(TOKENS.c.token_id, TOKENS.c.expires_at).where(
            TOKENS.c.token_id == UUID(newcomer.token_id), TOKENS.c.revoked_at.is_(None)
        )
    ).first()
    if token is None:
        return Refused(Refusal.TOKEN_REFUSED)
    spent = connection.execute(sa.select(JOINS).where(JOINS.c.token_id == token.token_id)).first()
    if spent is not None:
        if spent.ended_at is not None or spent.pin != newcomer.pin:
            return Refused(Refusal.TOKEN_REFUSED)
        _certify(transaction, spent.join_id)
        return Registered(_standing(connection, spent.join_id), new=False)
    if token.expires_at <= transaction.now:
        return Refused(Refusal.TOKEN_REFUSED)
    if _has_live(connection, JOINS.c.name == newcomer.name):
        return Refused(Refusal.NAME_TAKEN)
    return Registered(_standing(connection, _store(transaction, newcomer)), new=True)


def _store(transaction: Transaction, newcomer: Newcomer) -> UUID:
    join_id = UUID(transaction.run_ids.take(transaction.now))
    connection = transaction.connection
    connection.execute(
        JOINS.insert().values(
            join_id=join_id,
            token_id=UUID(newcomer.token_id),
            pin=newcomer.pin,
            name=newcomer.name,
            role=newcomer.role,
            address=newcomer.address,
            peer_urls=maybe_json(newcomer.peer_urls),
            state="pending",
            in_turn=False,
            registered_at=transaction.now,
            expires_at=transaction.now + APPROVAL_TIME,
            certificate_expires_at=_certificate_end(transaction),
            beats=0,
            last_seq=0,
            recent_keys="[]",
        )
    )
    steps = [
        {"join_id": join_id, "step": step, "place": place, "status": "waiting"}
        for place, step in enumerate(newcomer.plan)
    ]
    connection.execute(STEPS.insert(), steps)
    rafts = [
        {"join_id": join_id, "raft": raft.name, "place": place, "kind": raft.kind}
        for place, raft in enumerate(newcomer.rafts)
    ]
    if rafts:
        connection.execute(RAFTS.insert().values(state="absent", reached=0, peers="[]"), rafts)
    told: dict[str, object] = {"address": newcomer.address, "name": newcomer.name, "role": newcomer.role}
    transaction.record("join.registered", str(join_id), told | {"key": newcomer.pin, "tokenId": newcomer.token_id})
    return join_id


def _approve(transaction: Transaction, approval: _Approval) -> Decided:
    turns.expire_overdue(transaction)
    connection, join_id = transaction.connection, approval.join_id
    before = registration(connection, join_id)
    if before is None or before.state in ("approved", "joining", "joined"):
        return before
    if before.state != "pending":
        return Refused(Refusal.STATE_CONFLICT, before.state)
    asked = {"role": approval.role, "address": approval.address}
    given = {field: value for field, value in asked.items() if value is not None}
    taken = tuple(field for field, value in given.items() if _another_has(connection, join_id, field, value))
    if taken:
        return Refused(Refusal.APPROVAL_REFUSED, fields=taken)
    latest = sa.select(sa.func.coalesce(sa.func.max(JOINS.c.approval), 0))
    connection.execute(
        JOINS.update()
        .where(JOINS.c.join_id == join_id)
        .values(state="approved", approval=connection.execute(latest).scalar_one() + 1, approved_at=transaction.now)
        .values(given)
    )
    told: dict[str, object] = {"address": before.address, "role": before.role}
    transaction.record("join.approved", str(join_id), told | given)
    turns.grant(transaction)
    return _standing(connection, join_id)


def _reject(transaction: Transaction, rejection: _Rejection) -> Decided:
    turns.expire_overdue(transaction)
    connection, (join_id, reason) = transaction.connection, rejection
    state = _state(connection, join_id)
    if state is None:
        return None
    if state in ("pending", "approved"):
        turns.end(transaction, join_id, "rejected", Failure(None, reason))
    elif state == "joining":
        turns.fail(transaction, join_id, Failure(turns.running_step(connection, join_id), reason))
    else:
        return Refused(Refusal.STATE_CONFLICT, state)
    return _standing(connection, join_id)


def _renew(transaction: Transaction, join_id: UUID) -> int | Refused | None:
    turns.expire_overdue(transaction)
    state = _state(transaction.connection, join_id)
    if state is None:
        return None
    if state in ("rejected", "failed", "expired"):
        return Refused(Refusal.ENDED, state)
    return _certify(transaction, join_id)


_register_many, _approve_many = one_by_one(_register), one_by_one(_approve)
_reject_many, _renew_many = one_by_one(_reject), one_by_one(_renew)


def _certify(transaction: Transaction, join_id: UUID) -> int:
    ending = _certificate_end(transaction)
    renewed = JOINS.update().where(JOINS.c.join_id == join_id).values(certificate_expires_at=ending)
    transaction.connection.execute(renewed)
    transaction.record("join.certificate-renewed", str(join_id), {"expiresAt": ending})
    return ending


def _certificate_end(transaction: Transaction) -> int:
    """A certificate's times are whole seconds (RFC 5280, section 4.1.2.5)."""
    return (transaction.now + CERTIFICATE_TIME) // 1000 * 1000


def _another_has(connection: sa.Connection, join_id: UUID, field: str, value: str) -> bool:
    return _has_live(connection, JOINS.c[field] == value, JOINS.c.join_id != join_id)


def _has_live(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> bool:
    query = sa.select(JOINS.c.join_id).where(JOINS.c.ended_at.is_(None), *conditions).limit(1)
    return connection.execute(query).first() is not None


def _state(connection: sa.Connection, join_id: UUID) -> JoinState | None:
    found: JoinState | None = connection.scalar(sa.select(JOINS.c.state).where(JOINS.c.join_id == join_id))
    return found


def _standing(connection: sa.Connection, join_id: UUID) -> Registration:
    [found] = registrations(connection, selection().where(JOINS.c.join_id == join_id))
    return found


def _identity(connection: sa.Connection, join_id: UUID) -> Identity | None:
    pin = connection.scalar(sa.select(JOINS.c.pin).where(JOINS.c.join_id == join_id))
    if pin is None:
        return None
    steps = sa.select(STEPS.c.step).where(STEPS.c.join_id == join_id).order_by(STEPS.c.place)
    return Identity(pin, tuple(connection.scalars(steps)))
