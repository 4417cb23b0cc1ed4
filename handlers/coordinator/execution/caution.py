"""Finds out which run brings an executor down: those that were in hand at its death are taken up one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from handlers.coordinator.execution.carrier import JournalPort
from handlers.coordinator.execution.engine import Stride
from storage.execution.records import AttemptEnd, AttemptKind, Claim, Command, Move, Position, StepType


class Caution:
    """A journal before another one. Of the runs `suspects` one at a time is between being taken up and what it does.

    If all of them were taken up at once, each death would count as one more try of every one of them. What nothing was
    found against is a suspect no longer.
    """

    def __init__(self, journal: JournalPort, suspects: Iterable[str]) -> None:
        self._journal = journal
        self._suspects = set(suspects)
        self._lock = asyncio.Lock()
        self._holder: Claim | None = None

    def watched(self, stride: Stride) -> Stride:
        """Return the stride of a carrier that has this journal, after which the next suspect's turn comes at latest."""

        async def watched(claim: Claim) -> bool:
            try:
                return await stride(claim)
            finally:
                self._pass_on(claim)

        return watched

    async def take_up(self, claim: Claim) -> Position | None:
        """Do what the journal does, where the run is a suspect once it is its turn."""
        if claim.run_id in self._suspects:
            await self._lock.acquire()
            self._holder = claim
        return await self._journal.take_up(claim)

    async def dispatch(
        self, claim: Claim, *, step_type: StepType, kind: AttemptKind, command: Command | None
    ) -> int | None:
        """Do what the journal does; the call itself holds up nobody."""
        number = await self._journal.dispatch(claim, step_type=step_type, kind=kind, command=command)
        self._acquit(claim)
        return number

    async def settle(
        self, claim: Claim, *, step_type: StepType | None, move: Move, attempt: AttemptEnd | None = None
    ) -> bool:
        """Do what the journal does."""
        goes_on = await self._journal.settle(claim, step_type=step_type, move=move, attempt=attempt)
        self._acquit(claim)
        return goes_on

    def _acquit(self, claim: Claim) -> None:
        self._suspects.discard(claim.run_id)
        self._pass_on(claim)

    def _pass_on(self, claim: Claim) -> None:
        if self._holder == claim:
            self._holder = None
            self._lock.release()
