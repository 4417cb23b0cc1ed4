"""Carries a claimed run on by one step: what is next, the call where it is one, and what came of it, in that order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from handlers.coordinator.execution.connection import Connection, binding_digest
from handlers.coordinator.execution.course import Decision, Dispatch, Settle, decide
from handlers.coordinator.execution.exchange import Exchange
from handlers.coordinator.execution.verdict import judge
from handlers.coordinator.workflows.workflow import Workflow
from storage.errors import AuditUnavailable, Overloaded, Unavailable
from storage.execution.records import AttemptEnd, AttemptKind, Claim, Command, Move, Position, StepType

log = logging.getLogger("gatehouse.executor")

# What came of a call, and cannot be written now, is written after so long: once it is lost, it is a doubt.
_WRITE_AGAIN_SECONDS: Final = 1.0


class JournalPort(Protocol):
    """Where runs stand. Every write is void, and says so, where the claim no longer stands."""

    async def take_up(self, claim: Claim) -> Position | None:
        """Begin the present step once more, and say where the run is; None where nothing is to be done any more."""

    async def dispatch(
        self, claim: Claim, *, step_type: StepType, kind: AttemptKind, command: Command | None
    ) -> int | None:
        """Keep the command, begin an attempt and return its number; None where nothing may be sent."""

    async def settle(
        self, claim: Claim, *, step_type: StepType | None, move: Move, attempt: AttemptEnd | None = None
    ) -> bool:
        """End the attempt under way and apply the move; tells whether the run goes on in this claim.

        Does nothing where `attempt` is given and none is under way: it was ended before.
        """


class CallerPort(Protocol):
    """Who asks the receivers."""

    async def send(self, connection: Connection, command: Command) -> Exchange:
        """Send a command."""

    async def receipt(self, connection: Connection, command: Command) -> Exchange:
        """Ask for the receipt of a command."""


class Carrier:
    """Makes one stride after another for whoever holds a claim; it keeps nothing itself."""

    def __init__(
        self,
        journal: JournalPort,
        definitions: Callable[[str], Awaitable[Workflow | None]],
        connections: Mapping[str, Connection],
        caller: CallerPort,
        *,
        clock: Callable[[], int],
        jitter: Callable[[], float],
    ) -> None:
        """`definitions` gives the workflow of a digest, None where it cannot be read.

        `clock` gives epoch milliseconds and `jitter` 0 to 1.
        """
        self._journal = journal
        self._definitions = definitions
        self._connections = connections
        self._caller = caller
        self._clock = clock
        self._jitter = jitter

    async def stride(self, claim: Claim) -> bool:
        """Carry a run on by one step or attempt; tells whether it goes on in this claim.

        Raises what the journal and the definitions raise before a call is made. To be cancelled in a call leaves its
        attempt open, as the end of the process does.
        """
        position = await self._journal.take_up(claim)
        if position is None:
            return False
        workflow = await self._definitions(position.definition_digest)
        match self._decide(workflow, position):
            case Settle(step_type, move):
                return await self._journal.settle(claim, step_type=step_type, move=move)
            case Dispatch() as dispatch:
                assert workflow is not None  # noqa: S101 - nothing is sent for what cannot be read
                return await self._call(claim, workflow, position, dispatch)

    def _decide(self, workflow: Workflow | None, position: Position) -> Decision:
        bound = workflow is not None and (
            binding_digest(workflow.connections, self._connections) == position.binding_digest
        )
        return decide(workflow, position, self._connections, bound, self._clock())

    async def _call(self, claim: Claim, workflow: Workflow, position: Position, dispatch: Dispatch) -> bool:
        kind, command = dispatch.kind, dispatch.command
        if await self._journal.dispatch(claim, step_type="call", kind=kind, command=command) is None:
            return False
        connection = self._connections[command.connection]
        ask = self._caller.receipt if kind == "receipt" else self._caller.send
        move, end = judge(
            await ask(connection, command),
            position=position,
            command=command,
            connection=connection,
            kind=kind,
            workflow=workflow,
            now=self._clock(),
            jitter=self._jitter,
        )
        return await self._settle(claim, move, end)

    async def _settle(self, claim: Claim, move: Move, end: AttemptEnd) -> bool:
        """Write what came of a call, however long the database is away; what was written before counts once."""
        while True:
            try:
                return await self._journal.settle(claim, step_type="call", move=move, attempt=end)
            except (AuditUnavailable, Overloaded, Unavailable) as error:
                log.warning("what came of a call cannot be written for now: %s", error, extra={"run": claim.run_id})
                await asyncio.sleep(_WRITE_AGAIN_SECONDS)
