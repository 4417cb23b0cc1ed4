"""The journal of runs that are carried out: each entry counts only while the claim of who writes it stands."""

from __future__ import annotations

from storage.execution.records import AttemptEnd, AttemptKind, Claim, Command, Move, Position, StepType
from storage.writer import Writer


class Journal:
    """Every method raises Unavailable, Overloaded, AuditUnavailable and Unstorable."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def take_up(self, claim: Claim) -> Position | None:
        """Begin the present step, or go on with it; an attempt in which an executor died ends as `interrupted`.

        None where the claim does not stand, and where it ends by this: execution is held, or the run is to be
        cancelled.
        """
        raise NotImplementedError

    async def dispatch(
        self, claim: Claim, *, step_type: StepType, kind: AttemptKind, command: Command | None
    ) -> int | None:
        """Begin an attempt and return its number, from 1; from here on the command counts as sent.

        `command` is stored where the step has none: the first stays. None as for take_up: then nothing may be sent.
        """
        raise NotImplementedError

    async def settle(
        self, claim: Claim, *, step_type: StepType | None, move: Move, attempt: AttemptEnd | None = None
    ) -> bool:
        """End the attempt under way and make the move; True where the run goes on under this claim.

        `step_type` is None where the definition cannot be read. A run that is to be cancelled ends by any move.
        """
        raise NotImplementedError
