"""Claims: a run is in one executor's hands exactly while its claim stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import sqlalchemy as sa

from storage.committer import one_by_one
from storage.execution.records import Claim
from storage.execution.rows import CLAIMS, EXECUTORS, OUTBOX, RUNS
from storage.holds import hold_state
from storage.readers import Readers
from storage.statements import Spelling
from storage.transaction import Transaction
from storage.writer import Writer


class _Taking(NamedTuple):
    executor: str
    limit: int


class _Adoption(NamedTuple):
    dead: str
    executor: str


class Claims:
    """Every method raises Unavailable and Overloaded; those that write raise AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers, spelling: Spelling) -> None:
        self._writer = writer
        self._readers = readers
        self._enlist = spelling.insert(
            [EXECUTORS.c.name, EXECUTORS.c.beats],
            suffix=" ON CONFLICT (name) DO UPDATE SET beats = executors.beats + 1",
        )

    async def enlist(self, executor: str) -> None:
        """Make an executor known, so that others see whether it lives; again, it counts as a beat."""
        await self._writer.submit(self._enlist_many, executor)

    async def beat(self, executor: str) -> None:
        """Count one up, as a sign of life."""
        await self._writer.submit(_beat_many, executor)

    async def beats(self) -> Mapping[str, int]:
        """The counters of the executors that hold claims."""
        return await self._readers.read(_beats)

    async def take(self, executor: str, limit: int) -> list[Claim]:
        """Claim at most `limit` runs: those that are due, the longest due first, then new ones in their order.

        None while execution is held. Fewer than `limit` does not mean that there are no more: ask next_due.
        """
        return await self._writer.submit(_take_many, _Taking(executor, limit))

    async def unblock(self) -> None:
        """Let every blocked run be due: this process may be made of what the last one lacked."""
        await self._writer.submit(_unblock_all, None)

    async def held_by(self, executor: str) -> list[Claim]:
        """The claims of an executor, in the order in which they were given."""
        return await self._readers.read(lambda connection: _held_by(connection, executor))

    async def renew(self, claim: Claim) -> Claim | None:
        """The same run under a new claim, so that what still carries it under the old one can write nothing.

        None where the claim does not stand any more.
        """
        return await self._writer.submit(_renew_many, claim)

    async def adopt(self, dead: str, executor: str) -> int:
        """Renew all claims of an executor that has died, for another one; returns how many."""
        return await self._writer.submit(_adopt_many, _Adoption(dead, executor))

    async def next_due(self) -> int | None:
        """When the next run is due (epoch milliseconds): 0 where new ones wait, None where none is or all is held."""
        return await self._readers.read(_next_due)

    def _enlist_many(self, transaction: Transaction, executors: Sequence[str]) -> list[None]:
        for executor in executors:
            self._enlist.execute(transaction.cursor, [executor, 0])
        return [None] * len(executors)


def _beat(transaction: Transaction, executor: str) -> None:
    counted = EXECUTORS.update().where(EXECUTORS.c.name == executor).values(beats=EXECUTORS.c.beats + 1)
    transaction.connection.execute(counted)


def _beats(connection: sa.Connection) -> Mapping[str, int]:
    holding = sa.select(EXECUTORS).where(EXECUTORS.c.name.in_(sa.select(CLAIMS.c.executor)))
    return {row.name: row.beats for row in connection.execute(holding)}


def _take(transaction: Transaction, taking: _Taking) -> list[Claim]:
    if transaction.switches.execution_held:
        return []
    run_ids = _due(transaction, taking.limit)
    run_ids += _new(transaction, taking.limit - len(run_ids))
    if run_ids:
        running = {"state": "running", "next_due_at": None, "blocked": False}
        transaction.connection.execute(RUNS.update().where(RUNS.c.run_id.in_(run_ids)).values(running))
    return _claim(transaction.connection, run_ids, taking.executor)


def _due(transaction: Transaction, limit: int) -> list[UUID]:
    due = sa.select(RUNS.c.run_id).where(RUNS.c.next_due_at <= transaction.now)
    return list(transaction.connection.scalars(due.order_by(RUNS.c.next_due_at).limit(limit)))


def _new(transaction: Transaction, limit: int) -> list[UUID]:
    """Take rows off the outbox; a run that was cancelled before anybody took it is passed over."""
    connection = transaction.connection
    oldest = sa.select(OUTBOX.c.seq, OUTBOX.c.run_id, RUNS.c.state).join(RUNS, RUNS.c.run_id == OUTBOX.c.run_id)
    rows = connection.execute(oldest.order_by(OUTBOX.c.seq).limit(limit)).all()
    if rows:
        connection.execute(OUTBOX.delete().where(OUTBOX.c.seq <= rows[-1].seq))
    return [row.run_id for row in rows if row.state == "admitted"]


def _claim(connection: sa.Connection, run_ids: Sequence[UUID], executor: str) -> list[Claim]:
    if not run_ids:
        return []
    claimed = CLAIMS.insert().returning(CLAIMS.c.run_id, CLAIMS.c.seq, sort_by_parameter_order=True)
    rows = connection.execute(claimed, [{"run_id": run_id, "executor": executor} for run_id in run_ids])
    return [Claim(str(row.run_id), row.seq) for row in rows]


def _unblock(transaction: Transaction, _: None) -> None:
    blocked = (RUNS.c.state.in_(("waiting", "uncertain")), RUNS.c.blocked)
    transaction.connection.execute(RUNS.update().where(*blocked).values(next_due_at=transaction.now))


def _held_by(connection: sa.Connection, executor: str) -> list[Claim]:
    held = sa.select(CLAIMS.c.run_id, CLAIMS.c.seq).where(CLAIMS.c.executor == executor)
    return [Claim(str(row.run_id), row.seq) for row in connection.execute(held.order_by(CLAIMS.c.seq))]


def _renew(transaction: Transaction, claim: Claim) -> Claim | None:
    standing = (CLAIMS.c.seq == claim.seq, CLAIMS.c.run_id == UUID(claim.run_id))
    row = transaction.connection.execute(CLAIMS.delete().where(*standing).returning(CLAIMS.c.executor)).first()
    if row is None:
        return None
    [renewed] = _claim(transaction.connection, [UUID(claim.run_id)], row.executor)
    return renewed


def _adopt(transaction: Transaction, adoption: _Adoption) -> int:
    connection = transaction.connection
    orphans = [UUID(claim.run_id) for claim in _held_by(connection, adoption.dead)]
    connection.execute(CLAIMS.delete().where(CLAIMS.c.executor == adoption.dead))
    return len(_claim(connection, orphans, adoption.executor))


def _next_due(connection: sa.Connection) -> int | None:
    if hold_state(connection).execution_held:
        return None
    if connection.execute(sa.select(OUTBOX.c.seq).limit(1)).first() is not None:
        return 0
    earliest = sa.select(sa.func.min(RUNS.c.next_due_at)).where(RUNS.c.next_due_at.is_not(None))
    due: int | None = connection.scalar(earliest)
    return due


_beat_many = one_by_one(_beat)
_take_many = one_by_one(_take)
_unblock_all = one_by_one(_unblock)
_renew_many = one_by_one(_renew)
_adopt_many = one_by_one(_adopt)
