"""Runs for the tests of execution to carry out, and short ways to the states that they may be in."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import pytest
import sqlalchemy as sa

from storage.database import Storage
from storage.execution.records import (
    MOST_TRIES,
    Advance,
    AttemptEnd,
    AttemptResult,
    Claim,
    Command,
    Doubt,
    End,
    Move,
    Position,
    StepResult,
    Wait,
)
from storage.runs import RUNS, Run, Step
from tests.storage.work import admit, rows

EXECUTOR: Final = "local"
DONE: Final = End(state="completed", outcome="done", output='{"a":"\\u0000"}', failure_code=None)
FAILED: Final = End(state="failed", outcome=None, output=None, failure_code="call.refused")
NEXT: Final = Advance("next", StepResult(200, '{"b":1}', 7))
LATER: Final = 1 << 50


def command(**changes: Any) -> Command:
    """A mutation that the receiver protects by its key."""
    made = Command(
        key="k",
        connection="demo",
        recovery="same-command",
        method="POST",
        url="http://127.0.0.1:1/notices",
        headers=(("Idempotency-Key", "k"), ("Accept", "application/json")),
        body=b'{"text":"\\u0000"}',
    )
    return replace(made, **changes)


async def take(storage: Storage, limit: int = 1) -> list[Claim]:
    return await storage.execution.claims.take(EXECUTOR, limit)


async def taken(storage: Storage, **changes: Any) -> Claim:
    """A fresh run in this executor's hands."""
    run_id = (await admit(storage, **changes)).run_id
    [claim] = await take(storage)
    assert claim.run_id == run_id
    return claim


async def taken_up(storage: Storage, claim: Claim) -> Position:
    position = await storage.execution.journal.take_up(claim)
    assert position is not None
    return position


async def sent(storage: Storage, claim: Claim, what: Command | None = None) -> int:
    """Take the present step up as a call and begin to send its command."""
    await taken_up(storage, claim)
    number = await storage.execution.journal.dispatch(claim, step_type="call", kind="send", command=what or command())
    assert number is not None
    return number


async def settle(
    storage: Storage, claim: Claim, move: Move, result: AttemptResult | None = None, status: int | None = None
) -> bool:
    attempt = None if result is None else AttemptEnd(result=result, http_status=status)
    return await storage.execution.journal.settle(claim, step_type="call", move=move, attempt=attempt)


async def run_of(storage: Storage, claim: Claim) -> Run:
    run = await storage.runs.get(claim.run_id)
    assert run is not None
    return run


async def steps_of(storage: Storage, claim: Claim) -> tuple[Step, ...]:
    inspection = await storage.runs.inspect(claim.run_id)
    assert inspection is not None
    return inspection.steps


def row_of(url: str, run_id: str) -> Any:
    """The row of a run."""
    [row] = [row for row in rows(url, RUNS) if row.run_id == UUID(run_id)]
    return row


def everything(url: str, *tables: sa.Table) -> list[list[Any]]:
    """All rows of these tables, to be compared."""
    return [rows(url, each) for each in tables]


async def uncertain(storage: Storage, due_at: int | None = None, what: Command | None = None) -> Claim:
    """A run whose command was sent and not answered; its claim does not stand any more."""
    claim = await taken(storage)
    await sent(storage, claim, what)
    assert not await settle(storage, claim, Doubt(due_at), "unanswered")
    return claim


async def waiting_at_call(storage: Storage, *, blocked: bool = False) -> Claim:
    claim = await taken(storage)
    await sent(storage, claim)
    assert not await settle(storage, claim, Wait(LATER, blocked=blocked), "not-connected")
    return claim


async def waiting(storage: Storage) -> Claim:
    """A run that waits for a time."""
    claim = await taken(storage)
    await taken_up(storage, claim)
    assert not await storage.execution.journal.settle(claim, step_type="wait-until", move=Wait(LATER))
    return claim


async def brought_down(storage: Storage) -> Claim:
    """A run of which one step has brought the executor down again and again."""
    claim = await taken(storage)
    for _ in range(MOST_TRIES + 1):
        position = await taken_up(storage, claim)
    assert position.tries == MOST_TRIES + 1
    assert not await settle(storage, claim, Doubt(None))
    return claim


async def ended(storage: Storage, move: Move = DONE) -> Claim:
    claim = await taken(storage)
    await taken_up(storage, claim)
    assert not await settle(storage, claim, move)
    return claim


def stepping(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """What steps the clock of all writers by so many milliseconds."""
    real, shift = time.time_ns, [0]
    monkeypatch.setattr(time, "time_ns", lambda: real() + shift[0])

    def step(milliseconds: int) -> None:
        shift[0] += milliseconds * 1_000_000

    return step
