"""The two holds that stop work after a restore: one on admission, one on execution."""

from __future__ import annotations

from dataclasses import dataclass

from storage.refusals import Refused


@dataclass(frozen=True, slots=True)
class HoldState:
    """Which holds stand."""

    admission_held: bool
    execution_held: bool


class Holds:
    """Every method raises Unavailable; those that write raise Overloaded and AuditUnavailable too."""

    async def state(self) -> HoldState:
        """The holds as they stand now."""
        raise NotImplementedError

    async def restore(self, reason: str) -> HoldState:
        """Set both holds; where both stand already nothing changes."""
        raise NotImplementedError

    async def release_restore(self, reason: str) -> HoldState | Refused:
        """Release the execution hold; HOLD_REQUIRED where it does not stand."""
        raise NotImplementedError

    async def release_admission(
        self, *, recovery_reference: str, admission_history_complete: bool, prior_deployment_fenced: bool
    ) -> HoldState | Refused:
        """Release the admission hold.

        HOLD_REQUIRED where it does not stand, else RESTORE_UNRESOLVED where a boolean is false.
        """
        raise NotImplementedError
