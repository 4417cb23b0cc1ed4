"""The two holds that stop work after a restore: one on admission, one on execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from storage.readers import Readers
from storage.refusals import Refusal, Refused
from storage.statements import table
from storage.tables import RunRow, SwitchRow
from storage.transaction import Transaction
from storage.writer import Writer

SWITCHES, RUNS = table(SwitchRow), table(RunRow)

# By these the index on states finds the live runs among all that have ended.
_LIVE = ("admitted", "running", "waiting", "uncertain")


@dataclass(frozen=True, slots=True)
class HoldState:
    """Which holds stand."""

    admission_held: bool
    execution_held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recovery:
    reference: str
    history_complete: bool
    prior_fenced: bool


class Holds:
    """Every method raises Unavailable and Overloaded; those that write raise AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def state(self) -> HoldState:
        """The holds as they stand now."""
        return await self._readers.read(hold_state)

    async def restore(self, reason: str) -> HoldState:
        """Set both holds, and ask for a review of every live run; where both stand already nothing changes."""
        return await self._writer.submit(_restore, reason)

    async def release_restore(self, reason: str) -> HoldState | Refused:
        """Release the execution hold; HOLD_REQUIRED where it does not stand."""
        return await self._writer.submit(_release_restore, reason)

    async def release_admission(
        self, *, recovery_reference: str, admission_history_complete: bool, prior_deployment_fenced: bool
    ) -> HoldState | Refused:
        """Release the admission hold.

        HOLD_REQUIRED where it does not stand, else RESTORE_UNRESOLVED where a boolean is false.
        """
        recovery = _Recovery(
            reference=recovery_reference,
            history_complete=admission_history_complete,
            prior_fenced=prior_deployment_fenced,
        )
        return await self._writer.submit(_release_admission, recovery)


def hold_state(connection: sa.Connection) -> HoldState:
    """The holds as this transaction sees them."""
    return HoldState(*connection.execute(sa.select(SWITCHES.c.admission_held, SWITCHES.c.execution_held)).one())


def _restore(transaction: Transaction, reasons: Sequence[str]) -> list[HoldState]:
    """Set both holds: what live runs have sent since the state that was restored, nobody knows."""
    for reason in reasons:
        if not (transaction.switches.admission_held and transaction.switches.execution_held):
            review = RUNS.update().where(RUNS.c.state.in_(_LIVE)).values(restore_review_required=True)
            transaction.connection.execute(review)
            _set(transaction, HoldState(True, True), "hold.restored", {"reason": reason})
    return [HoldState(True, True)] * len(reasons)


def _release_restore(transaction: Transaction, reasons: Sequence[str]) -> list[HoldState | Refused]:
    outcomes: list[HoldState | Refused] = []
    for reason in reasons:
        if transaction.switches.execution_held:
            released = HoldState(transaction.switches.admission_held, False)
            outcomes.append(_set(transaction, released, "hold.execution-released", {"reason": reason}))
        else:
            outcomes.append(Refused(Refusal.HOLD_REQUIRED))
    return outcomes


def _release_admission(transaction: Transaction, recoveries: Sequence[_Recovery]) -> list[HoldState | Refused]:
    outcomes: list[HoldState | Refused] = []
    for recovery in recoveries:
        if not transaction.switches.admission_held:
            outcomes.append(Refused(Refusal.HOLD_REQUIRED))
        elif not (recovery.history_complete and recovery.prior_fenced):
            outcomes.append(Refused(Refusal.RESTORE_UNRESOLVED))
        else:
            released = HoldState(False, transaction.switches.execution_held)
            told: dict[str, object] = {"recoveryReference": recovery.reference}
            outcomes.append(_set(transaction, released, "hold.admission-released", told))
    return outcomes


def _set(transaction: Transaction, holds: HoldState, action: str, told: dict[str, object]) -> HoldState:
    before = HoldState(transaction.switches.admission_held, transaction.switches.execution_held)
    if holds != before:
        transaction.connection.execute(
            SWITCHES.update().values(admission_held=holds.admission_held, execution_held=holds.execution_held)
        )
        transaction.reread()
        transaction.record(action, "holds", told)
    return holds
