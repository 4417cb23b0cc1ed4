from __future__ import annotations

import random
import time
from dataclasses import asdict
from typing import Any, Final

import pytest

from handlers.coordinator.scenarios.journal import MemoryJournal
from storage.database import Storage
from storage.execution.records import (
    Advance,
    AttemptEnd,
    AttemptKind,
    AttemptResult,
    Claim,
    Command,
    Doubt,
    End,
    Move,
    Position,
    Recovery,
    StepResult,
    StepType,
    Wait,
)
from storage.refusals import Refused
from tests.storage.work import NEW_RUN, PACKAGE, admit
from tests.support.effort import tries

pytestmark = pytest.mark.anyio

SEED: Final = 20261130
PAST: Final = 1
# Beyond the deadline of the run, an hour after its admission.
FAR: Final = 2**52
RECOVERIES: Final[tuple[Recovery, ...]] = ("same-command", "same-command-and-receipt", "hold-after-dispatch")
RESULTS: Final[tuple[AttemptResult, ...]] = (
    *("completed", "retryable", "not-connected", "unanswered", "failed-there", "interrupted"),
    *("receipt-missing", "receipt-unavailable", "receipt-expired"),
)


class Pair:
    """A run in the journal of storage and in the one in memory, and what was done with it in both."""

    def __init__(self, storage: Storage, run_id: str) -> None:
        self._storage = storage
        self._run_id = run_id
        self.memory = MemoryJournal(run_id, "case-follow-up", NEW_RUN, lambda: time.time_ns() // 1_000_000)
        self.claim = Claim(run_id, 0)
        self._own = Claim(run_id, 0)

    async def take(self) -> None:
        due = self.memory.run.due_at is not None and self.memory.run.due_at <= time.time_ns() // 1_000_000
        taken = await self._storage.execution.claims.take("local", 1)
        assert bool(taken) == due
        if taken:
            [self.claim], self._own = taken, self.memory.claim()

    async def take_up(self) -> None:
        stored = await self._storage.execution.journal.take_up(self.claim)
        assert timeless(stored) == timeless(await self.memory.take_up(self._own))

    async def dispatch(self, kind: AttemptKind, command: Command) -> None:
        stored = await self._storage.execution.journal.dispatch(
            self.claim, step_type="call", kind=kind, command=command
        )
        assert stored == await self.memory.dispatch(self._own, step_type="call", kind=kind, command=command)

    async def settle(self, move: Move, attempt: AttemptEnd | None, step_type: StepType) -> None:
        stored = await self._storage.execution.journal.settle(
            self.claim, step_type=step_type, move=move, attempt=attempt
        )
        own = await self.memory.settle(self._own, step_type=step_type, move=move, attempt=attempt)
        assert stored == own

    async def cancel(self) -> None:
        await self._storage.runs.cancel(self._run_id, "a test")
        self.memory.cancel()

    async def retry_same(self, accept_repeat: bool) -> None:
        stored = await self._storage.execution.recoveries.retry_same(
            self._run_id, reason="a test", accept_repeat=accept_repeat, readable=True
        )
        own = self.memory.retry_same(accept_repeat=accept_repeat)
        assert own == (stored.why if isinstance(stored, Refused) else None)

    async def compare(self) -> None:
        stored = await self._storage.runs.get(self._run_id)
        assert stored is not None
        own = self.memory.run
        assert (stored.step, stored.state, stored.uncertain) == (own.step, own.state, own.uncertain)
        assert (stored.outcome, stored.output, stored.failure_code) == (own.outcome, own.output, own.failure_code)
        assert stored.cancel_requested == own.cancel_requested
        assert due(stored.next_due_at) == due(own.due_at)


def due(at: int | None) -> str:
    """When a run is due, as far as that does not hang on how long the test takes."""
    if at is None or at == PAST:
        return "never" if at is None else "past"
    return "at the deadline" if at > time.time_ns() // 1_000_000 else "at once"


def timeless(position: Position | None) -> Any:
    """What a position says but for the times, of which only whether there is one."""
    if position is None:
        return None
    value = asdict(position)
    del value["admitted_at"], value["deadline_at"]
    for attempt in value["attempts"]:
        attempt["started_at"], attempt["ended_at"] = None, attempt["ended_at"] is None
    return value


def command(step: str, recovery: Recovery) -> Command:
    return Command(
        key=f"run.{step}",
        connection="registry",
        recovery=recovery,
        method="POST",
        url="https://registry.invalid/notices",
        headers=(("Accept", "application/json"),),
        body=b"{}",
    )


def any_move(chance: random.Random, step: str) -> Move:
    result = StepResult(200, '{"a":1}', 5)
    moves: list[Move] = [
        Advance(f"{step}x", result),
        Advance(f"{step}y", None),
        Wait(PAST),
        Wait(FAR),
        Doubt(PAST),
        Doubt(None),
        End(state="completed", outcome="done", output="{}", failure_code=None),
        End(state="failed", outcome=None, output=None, failure_code="call.refused"),
    ]
    return chance.choices(moves, weights=[6, 2, 8, 1, 4, 2, 1, 1])[0]


async def stride(chance: random.Random, pair: Pair) -> None:
    """Do what a carrier does, or less: it may die in between, and the run may be cancelled meanwhile."""
    step, end = pair.memory.run.step, None
    await pair.take_up()
    if chance.random() < 0.2:
        return
    if chance.random() < 0.6:
        end = AttemptEnd(result=chance.choice(RESULTS), http_status=chance.choice([None, 200, 503]))
        await pair.dispatch(chance.choice(("send", "receipt")), command(step, chance.choice(RECOVERIES)))
        if chance.random() < 0.2:
            return
    if chance.random() < 0.05:
        await pair.cancel()
    move = any_move(chance, step)
    await pair.settle(move, end, "choose" if isinstance(move, Advance) and move.result is None else "call")


async def any_act(chance: random.Random, pair: Pair) -> None:
    match chance.choices(range(4), weights=[6, 12, 0.5, 3])[0]:
        case 0:
            await pair.take()
        case 1:
            await stride(chance, pair)
        case 2:
            await pair.cancel()
        case _:
            await pair.retry_same(chance.random() < 0.5)


async def test_it_behaves_as_the_journal_of_storage_does_whatever_is_done_with_a_run(storage: Storage) -> None:
    await storage.workflows.apply(PACKAGE.digest, PACKAGE.snapshot, PACKAGE.definitions)
    chance = random.Random(SEED)
    ends = set()
    for _ in range(tries(100, 15)):
        pair = Pair(storage, (await admit(storage)).run_id)
        await pair.take()
        for _ in range(25):
            await any_act(chance, pair)
            await pair.compare()
        ends.add(pair.memory.run.state)
        await pair.cancel()
        await stride(chance, pair)
    assert {"completed", "failed", "cancelled", "waiting", "uncertain"} <= ends
