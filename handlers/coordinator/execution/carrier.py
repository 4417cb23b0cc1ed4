"""Carries a claimed run on by one step: what is next, the call where it is one, and what came of it, in that order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.execution.exchange import Exchange
from storage.execution.records import AttemptEnd, AttemptKind, Claim, Command, Move, Position
from storage.runs import StepType


class JournalPort(Protocol):
    """Where runs stand. Every write is void, and says so, where the claim no longer stands."""

    async def take_up(self, claim: Claim) -> Position | None:
        """Begin the present step once more, and say where the run is; None where the claim no longer stands."""

    async def dispatch(
        self, claim: Claim, *, step_type: StepType, kind: AttemptKind, command: Command | None
    ) -> int | None:
        """Keep the command, begin an attempt and return its number; None where the claim no longer stands."""

    async def settle(
        self, claim: Claim, *, step_type: StepType | None, move: Move, attempt: AttemptEnd | None = None
    ) -> bool:
        """End the attempt under way and apply the move; tells whether the run goes on in this claim."""


class CallerPort(Protocol):
    """Who asks the receivers."""

    async def send(self, connection: Connection, command: Command) -> Exchange:
        """Send a command."""

    async def receipt(self, connection: Connection, command: Command) -> Exchange:
        """Ask for the receipt of a command."""
