"""What may become of a join and of the turn within a write transaction; whoever changes either does it by these."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa

from storage.join.records import JOINS, RAFTS, STEPS, Failure, to_json
from storage.join.states import JoinState
from storage.transaction import Transaction

# What the audit tells of a reason: its lines are bounded, the messages of a node are not.
_TOLD = 1000


def expire_overdue(transaction: Transaction) -> None:
    """End every join that was not approved in time."""
    overdue = sa.select(JOINS.c.join_id).where(JOINS.c.state == "pending", JOINS.c.expires_at <= transaction.now)
    for join_id in transaction.connection.scalars(overdue.order_by(JOINS.c.join_id)).all():
        end(transaction, join_id, "expired")


def end(transaction: Transaction, join_id: UUID, state: JoinState, failure: Failure | None = None) -> None:
    """End a join; the turn, if it has it, is not yet over by that."""
    _change(
        transaction,
        join_id,
        state=state,
        ended_at=transaction.now,
        failure=None if failure is None else to_json(list(failure)),
    )
    told: dict[str, object] = {} if failure is None else {"step": failure.step, "reason": failure.reason[:_TOLD]}
    transaction.record(f"join.{state}", str(join_id), told)


def fail(transaction: Transaction, join_id: UUID, failure: Failure) -> None:
    """Fail the join that has the turn, and want it out of every raft that it reached; the turn lasts until it is."""
    end(transaction, join_id, "failed", failure)
    transaction.connection.execute(
        RAFTS.update().where(RAFTS.c.join_id == join_id, RAFTS.c.state != "absent").values(state="removing", error=None)
    )
    pass_on_if_out(transaction, join_id)


def pass_on_if_out(transaction: Transaction, join_id: UUID) -> None:
    """Let the turn of a failed join end once it is out of every raft."""
    if not _any(transaction, RAFTS, RAFTS.c.join_id == join_id, RAFTS.c.state == "removing"):
        _pass_on(transaction, join_id)


def join_if_done(transaction: Transaction, join_id: UUID) -> None:
    """Let the join that has the turn be `joined` once every step is done and it votes in every raft."""
    undone = _any(transaction, STEPS, STEPS.c.join_id == join_id, STEPS.c.status != "done")
    if not undone and not _any(transaction, RAFTS, RAFTS.c.join_id == join_id, RAFTS.c.state != "voter"):
        end(transaction, join_id, "joined")
        _pass_on(transaction, join_id)


def grant(transaction: Transaction) -> None:
    """Give the turn, if nobody has it, to the join that was approved first."""
    # Written out, since SQLite uses a partial index only where the query repeats its condition.
    if _any(transaction, JOINS, sa.text("joins.in_turn")):
        return
    earliest = sa.select(JOINS.c.join_id).where(JOINS.c.state == "approved")
    join_id = transaction.connection.scalar(earliest.order_by(JOINS.c.approval).limit(1))
    if join_id is not None:
        _change(transaction, join_id, state="joining", in_turn=True, turn_started_at=transaction.now)
        transaction.record("join.turn-begun", str(join_id), {})


def running_step(connection: sa.Connection, join_id: UUID) -> str | None:
    """The first step of the plan that the node is at."""
    running = sa.select(STEPS.c.step).where(STEPS.c.join_id == join_id, STEPS.c.status == "running")
    found: str | None = connection.scalar(running.order_by(STEPS.c.place).limit(1))
    return found


def _pass_on(transaction: Transaction, join_id: UUID) -> None:
    _change(transaction, join_id, in_turn=False)
    transaction.record("join.turn-ended", str(join_id), {})
    grant(transaction)


def _change(transaction: Transaction, join_id: UUID, **values: object) -> None:
    transaction.connection.execute(JOINS.update().where(JOINS.c.join_id == join_id).values(values))


def _any(transaction: Transaction, of: sa.Table, *conditions: sa.ColumnElement[bool] | sa.TextClause) -> bool:
    query = sa.select(sa.literal(1)).select_from(of).where(*conditions).limit(1)
    return transaction.connection.execute(query).first() is not None
