"""The journal of runs that are carried out: each entry counts only while the claim of who writes it stands."""

from __future__ import annotations

from typing import NamedTuple

from storage.committer import one_by_one
from storage.execution.progress import Progress
from storage.execution.records import AttemptEnd, AttemptKind, Claim, Command, Move, Position, StepType
from storage.transaction import Transaction
from storage.writer import Writer


class _Dispatch(NamedTuple):
    claim: Claim
    step_type: StepType
    kind: AttemptKind
    command: Command | None


class _Settlement(NamedTuple):
    claim: Claim
    step_type: StepType | None
    move: Move
    attempt: AttemptEnd | None


class Journal:
    """Every method raises Unavailable, Overloaded, AuditUnavailable and Unstorable."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def take_up(self, claim: Claim) -> Position | None:
        """Begin the present step, or go on with it; an attempt that is under way ends as `interrupted`.

        None where the claim does not stand, or ends by this, since execution is held or the run is to be cancelled.
        """
        return await self._writer.submit(_take_up_many, claim)

    async def dispatch(
        self, claim: Claim, *, step_type: StepType, kind: AttemptKind, command: Command | None
    ) -> int | None:
        """Begin an attempt and return its number, from 1; from here on the command counts as sent.

        `command` is stored where the step has none: the first stays. None where the claim does not stand, or ends by
        this, since execution is held or the run is to be cancelled: then nothing may be sent.
        """
        return await self._writer.submit(_dispatch_many, _Dispatch(claim, step_type, kind, command))

    async def settle(
        self, claim: Claim, *, step_type: StepType | None, move: Move, attempt: AttemptEnd | None = None
    ) -> bool:
        """End the attempt under way and make the move; True where the run goes on under this claim.

        Void where `attempt` is given and none is under way: what it tells was written before.
        `step_type` is None where the definition cannot be read. A run that is to be cancelled ends by any move: as
        cancelled, or as completed where this move completes it.
        """
        return await self._writer.submit(_settle_many, _Settlement(claim, step_type, move, attempt))


def _take_up(transaction: Transaction, claim: Claim) -> Position | None:
    progress = Progress.held(transaction, claim)
    if progress is None:
        return None
    progress.interrupt()
    if transaction.switches.execution_held or progress.run.cancel_requested:
        progress.release()
        return None
    return progress.take_up()


def _dispatch(transaction: Transaction, entry: _Dispatch) -> int | None:
    progress = Progress.held(transaction, entry.claim, entry.step_type)
    if progress is None:
        return None
    if transaction.switches.execution_held or progress.run.cancel_requested:
        progress.release()
        return None
    if entry.command is not None:
        progress.prepare(entry.command)
    return progress.begin_attempt(entry.kind)


def _settle(transaction: Transaction, entry: _Settlement) -> bool:
    progress = Progress.held(transaction, entry.claim, entry.step_type)
    if progress is None:
        return False
    if entry.attempt is not None and not progress.end_attempt(entry.attempt):
        return False
    return progress.move(entry.move)


_take_up_many = one_by_one(_take_up)
_dispatch_many = one_by_one(_dispatch)
_settle_many = one_by_one(_settle)
