"""An executor in the test's own process that says what came of a call, where a real one finds out by making it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from storage.database import Storage
from storage.execution.records import (
    MOST_TRIES,
    Advance,
    AttemptEnd,
    Claim,
    Command,
    Doubt,
    Recovery,
    StepResult,
    Wait,
)
from tests.support.gatehouse import Gatehouse
from tests.support.inprocess import storage_of
from tests.support.packages import Workflow, connection, workflow

EXECUTOR: Final = "pretended"
# Epoch milliseconds that no test lives to see.
FAR: Final = 4_000_000_000_000
# So often an executor dies before the step it had in hand is held to be why.
TOO_OFTEN: Final = MOST_TRIES + 1
CALLING: Final[Workflow] = workflow(version="2", connection="crm")


def receipts_at(url: str) -> dict[str, Any]:
    """Return the settings of the connection that CALLING calls, of a receiver at `url` that gives receipts."""
    return connection(url) | {"recovery": "same-command-and-receipt", "receiptPath": "/receipts/{key}"}


def leave_in_doubt(
    server: Gatehouse, run: str, *, recovery: Recovery = "same-command-and-receipt", deaths: int = 0
) -> str:
    """Send the call of a new run of CALLING, let no answer come, and leave the run to a person; return its id.

    With `deaths` the executor dies so often before it can say what came of the call.
    """
    asyncio.run(_leave(server.state, run, recovery, deaths))
    return run


def leave_at_its_call(server: Gatehouse, run: str, due_at: int, *, recovery: Recovery = "same-command") -> str:
    """Find the receiver of a new run of CALLING away, so that the call waits until `due_at`; return the run's id."""
    asyncio.run(_put_off(server.state, run, due_at, recovery))
    return run


def leave_in_hand(server: Gatehouse, run: str) -> str:
    """Send the call of a new run of CALLING, and say nothing of what came of it; return the run's id."""
    asyncio.run(_keep(server.state, run))
    return run


def leave_waiting(server: Gatehouse, run: str, due_at: int) -> str:
    """Let a new run wait at its first step until `due_at` (epoch milliseconds); return its id."""
    asyncio.run(_wait(server.state, run, due_at))
    return run


async def _leave(state: Path, run: str, recovery: Recovery, deaths: int) -> None:
    async with storage_of(state) as storage:
        claim = await _sent(storage, run, recovery)
        for _ in range(deaths):
            renewed = await storage.execution.claims.renew(claim)
            assert renewed is not None
            claim = renewed
            assert await storage.execution.journal.take_up(claim) is not None
        ended = None if deaths else AttemptEnd(result="unanswered", http_status=None)
        await storage.execution.journal.settle(claim, step_type="call", move=Doubt(None), attempt=ended)


async def _keep(state: Path, run: str) -> None:
    async with storage_of(state) as storage:
        await _sent(storage, run, "same-command")


async def _put_off(state: Path, run: str, due_at: int, recovery: Recovery) -> None:
    async with storage_of(state) as storage:
        claim = await _sent(storage, run, recovery)
        away = AttemptEnd(result="not-connected", http_status=None)
        await storage.execution.journal.settle(claim, step_type="call", move=Wait(due_at), attempt=away)


async def _wait(state: Path, run: str, due_at: int) -> None:
    async with storage_of(state) as storage:
        claim = await _taken(storage, run)
        await storage.execution.journal.settle(claim, step_type="wait-until", move=Wait(due_at))


async def _sent(storage: Storage, run: str, recovery: Recovery) -> Claim:
    journal = storage.execution.journal
    claim = await _taken(storage, run)
    paused = Advance("tell", StepResult(None, None, 0))
    assert await journal.settle(claim, step_type="wait-until", move=paused)
    assert await journal.take_up(claim) is not None
    assert await journal.dispatch(claim, step_type="call", kind="send", command=_command(run, recovery)) == 1
    return claim


async def _taken(storage: Storage, run: str) -> Claim:
    await storage.execution.claims.enlist(EXECUTOR)
    claim = next(each for each in await storage.execution.claims.take(EXECUTOR, 64) if each.run_id == run)
    assert await storage.execution.journal.take_up(claim) is not None
    return claim


def _command(run: str, recovery: Recovery) -> Command:
    key = f"{run}.tell"
    return Command(
        key=key,
        connection="crm",
        recovery=recovery,
        method="POST",
        url="http://127.0.0.1:9/told",
        headers=(("Idempotency-Key", key),),
        body=None,
    )
