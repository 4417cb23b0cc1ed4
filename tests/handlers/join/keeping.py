"""A keeper of turns at work, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from handlers.join.rafts.port import Raft
from handlers.join.turns import Turns
from storage.database import Storage
from storage.join.events import Recorded
from storage.join.registrations import RaftRecord, Registration
from tests.storage.join.work import report, standing, step


class Clock:
    """Goes on only when it is told to, and counts who looks at it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.now


class RunningClock(Clock):
    """Goes on by itself."""

    def __call__(self) -> float:
        self.looks += 1
        return time.monotonic()


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110 - what is waited for stands in a database
            await asyncio.sleep(0.005)


class Keeper:
    """A keeper at work on a storage, and what can be seen of it."""

    def __init__(self, storage: Storage, rafts: Sequence[Raft], clock: Clock, timeout_seconds: float) -> None:
        self.storage = storage
        self.clock = clock
        self.turns = Turns(storage.join, rafts, timeout_seconds=timeout_seconds, clock=clock)
        self.stopping = asyncio.Event()

    async def report(self, join_id: str, *steps: tuple[str, str]) -> None:
        outcome = await report(self.storage, join_id, *(step(name, status) for name, status in steps))
        assert isinstance(outcome, Recorded)
        self.turns.wake()

    async def look(self) -> None:
        """Return when it has looked at everything once more."""
        looks = self.clock.looks

        async def looked() -> bool:
            self.turns.wake()
            return self.clock.looks >= looks + 2

        await until(looked)

    def later(self, seconds: float) -> None:
        """Let it look again after so many seconds."""
        self.clock.now += seconds
        self.turns.wake()

    async def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.now += 1
            await self.look()

    async def state(self, join_id: str, state: str) -> Registration:
        async def reached() -> bool:
            return (await standing(self.storage, join_id)).state == state

        await until(reached)
        return await standing(self.storage, join_id)

    async def raft(self, join_id: str, state: str, name: str = "store") -> RaftRecord:
        async def reached() -> bool:
            return (await self.record(join_id, name)).state == state

        await until(reached)
        return await self.record(join_id, name)

    async def error(self, join_id: str, error: str | None, name: str = "store") -> None:
        async def shown() -> bool:
            return (await self.record(join_id, name)).error == error

        await until(shown)

    async def record(self, join_id: str, name: str = "store") -> RaftRecord:
        return next(raft for raft in (await standing(self.storage, join_id)).rafts if raft.name == name)


@contextlib.asynccontextmanager
async def kept(
    storage: Storage, *rafts: Raft, timeout_seconds: float = 600, clock: Clock | None = None
) -> AsyncIterator[Keeper]:
    """Keep the turns as long as the block runs."""
    keeper = Keeper(storage, rafts, clock or Clock(), timeout_seconds)
    task = asyncio.create_task(keeper.turns.run(keeper.stopping))
    try:
        yield keeper
    finally:
        keeper.stopping.set()
        await task
