"""What a person does about a run that does not go on by itself: the same command again, or asking the receiver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from storage.committer import one_by_one
from storage.execution.doubt import in_doubt
from storage.execution.progress import Progress, position, standing
from storage.execution.records import MOST_TRIES, Advance, Attempt, AttemptEnd, End, Position
from storage.execution.rows import command_of
from storage.holds import hold_state
from storage.identifiers import parse
from storage.readers import Readers
from storage.refusals import Refusal, Refused
from storage.runs import Run, one_run
from storage.transaction import Transaction
from storage.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainCall:
    """A call whose effect is not known, as it stands; by `mark` it is found that the run has moved since."""

    run: Run
    position: Position
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retry:
    run_id: UUID
    reason: str
    accept_repeat: bool
    readable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reconciliation:
    run_id: UUID
    mark: str
    move: Advance | End
    attempt: AttemptEnd
    started_at: int
    reason: str


class Recoveries:
    """Every method raises Unavailable and Overloaded, those that write AuditUnavailable and Unstorable too.

    A run that is not there is None, as for Runs.get.
    """

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def retry_same(
        self, run_id: str, *, reason: str, accept_repeat: bool, readable: bool
    ) -> Run | Refused | None:
        """Let an uncertain run, or one that waits at a call, be due at once; `readable`: its definition can be read.

        RETRY_REFUSED for any other, then EXECUTION_HELD, DEFINITION_INCOMPATIBLE and, unless a repeat is accepted,
        REVIEW_REQUIRED, EVALUATION_UNCERTAIN, MUTATION_UNCERTAIN.
        """
        found = parse(run_id)
        if found is None:
            return None
        retry = _Retry(run_id=found, reason=reason, accept_repeat=accept_repeat, readable=readable)
        return await self._writer.submit(_retry_many, retry)

    async def uncertain_call(self, run_id: str) -> UncertainCall | Refused | None:
        """The call that reconciling is about: RECONCILE_REFUSED where none is in doubt, then EXECUTION_HELD."""
        found = parse(run_id)
        return None if found is None else await self._readers.read(lambda connection: _uncertain(connection, found))

    async def reconciled(
        self, run_id: str, mark: str, *, move: Advance | End, attempt: AttemptEnd, started_at: int, reason: str
    ) -> Run | Refused | None:
        """Record what the receiver told when it was asked at `started_at` (epoch milliseconds), and make the move.

        A run that goes on is due at once. RECONCILE_RACED where the run has moved since the mark was given.
        """
        found = parse(run_id)
        if found is None:
            return None
        told = _Reconciliation(
            run_id=found, mark=mark, move=move, attempt=attempt, started_at=started_at, reason=reason
        )
        return await self._writer.submit(_reconcile_many, told)


def _retry(transaction: Transaction, retry: _Retry) -> Run | Refused | None:
    progress = Progress.of(transaction, retry.run_id)
    if progress is None:
        return None
    refusal = _refusal(transaction, progress, retry)
    if refusal is not None:
        return Refused(refusal)
    progress.retry(repeat_accepted=retry.accept_repeat)
    told: dict[str, object] = {"acceptRepeat": retry.accept_repeat, "reason": retry.reason, "step": progress.run.step}
    transaction.record("run.retried", str(retry.run_id), told)
    return one_run(transaction.connection, retry.run_id)


def _refusal(transaction: Transaction, progress: Progress, retry: _Retry) -> Refusal | None:
    if not _may_be_retried(progress.run):
        return Refusal.RETRY_REFUSED
    if transaction.switches.execution_held:
        return Refusal.EXECUTION_HELD
    if not retry.readable:
        return Refusal.DEFINITION_INCOMPATIBLE
    return None if retry.accept_repeat else _risk(transaction.connection, progress)


def _may_be_retried(run: sa.Row[Any]) -> bool:
    """Whether a run is uncertain or waits at a call; at a definition that cannot be read it waits at no known type."""
    if run.state == "waiting":
        return bool(run.blocked) or (run.step_type == "call" and run.step_state == "waiting")
    return bool(run.state == "uncertain")


def _risk(connection: sa.Connection, progress: Progress) -> Refusal | None:
    """Why a person has to say that a repeat is accepted."""
    if progress.run.restore_review_required:
        return Refusal.REVIEW_REQUIRED
    if progress.run.tries > MOST_TRIES:
        return Refusal.EVALUATION_UNCERTAIN
    command = command_of(connection, progress.run.run_id, progress.run.step)
    if command is not None and command.recovery == "hold-after-dispatch" and progress.in_doubt():
        return Refusal.MUTATION_UNCERTAIN
    return None


def _uncertain(connection: sa.Connection, run_id: UUID) -> UncertainCall | Refused | None:
    run = standing(connection, run_id)
    if run is None:
        return None
    at = position(connection, run)
    if run.state != "uncertain" or not in_doubt(at.command, at.attempts):
        return Refused(Refusal.RECONCILE_REFUSED)
    if hold_state(connection).execution_held:
        return Refused(Refusal.EXECUTION_HELD)
    return UncertainCall(run=one_run(connection, run_id), position=at, mark=_mark(at.step, at.attempts))


def _reconcile(transaction: Transaction, told: _Reconciliation) -> Run | Refused | None:
    progress = Progress.of(transaction, told.run_id)
    if progress is None:
        return None
    run = progress.run
    if run.state != "uncertain" or _mark(run.step, progress.attempts()) != told.mark:
        return Refused(Refusal.RECONCILE_RACED)
    progress.add_attempt("receipt", told.started_at, told.attempt)
    transaction.record("run.reconciled", str(told.run_id), {"reason": told.reason, "step": run.step})
    progress.move(told.move)
    return one_run(transaction.connection, told.run_id)


def _mark(step: str, attempts: Sequence[Attempt]) -> str:
    """What is another once the run has gone on, or asked again."""
    return f"{attempts[-1].number if attempts else 0} {step}"


_retry_many = one_by_one(_retry)
_reconcile_many = one_by_one(_reconcile)
