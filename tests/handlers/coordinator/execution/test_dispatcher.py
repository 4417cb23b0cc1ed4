from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from handlers.coordinator.execution.dispatcher import BEAT_SECONDS, DEAD_LOOKS, Dispatcher
from storage.database import Storage
from storage.errors import Unavailable
from storage.execution.records import Claim
from tests.storage.work import PACKAGE, admit, open_storage

pytestmark = pytest.mark.anyio

US: Final = "here"
RUNS: Final = 20


class Claims:
    """Claims without a database. `due` are runs with the times from which they are due."""

    def __init__(self) -> None:
        self.due: dict[str, int] = {}
        self.held = False
        self.standing: dict[Claim, str] = {}
        self.counters: dict[str, int] = {}
        self.unblocked = 0
        self.looks = 0
        self.takes = 0
        self._seq = 0

    def claim(self, run: str, executor: str = US) -> Claim:
        self._seq += 1
        claim = Claim(run, self._seq)
        self.standing[claim] = executor
        return claim

    async def enlist(self, executor: str) -> None:
        self.counters[executor] = self.counters.get(executor, 0) + 1

    async def beat(self, executor: str) -> None:
        self.counters[executor] += 1

    async def beats(self) -> Mapping[str, int]:
        return dict(self.counters)

    async def take(self, executor: str, limit: int) -> list[Claim]:
        self.takes += 1
        runs = [] if self.held else sorted(self.due, key=self.due.__getitem__)[:limit]
        for run in runs:
            del self.due[run]
        return [self.claim(run, executor) for run in runs]

    async def unblock(self) -> None:
        self.unblocked += 1

    async def held_by(self, executor: str) -> list[Claim]:
        self.looks += 1
        return [claim for claim, holder in self.standing.items() if holder == executor]

    async def renew(self, claim: Claim) -> Claim | None:
        holder = self.standing.pop(claim, None)
        return None if holder is None else self.claim(claim.run_id, holder)

    async def adopt(self, dead: str, executor: str) -> int:
        adopted = await self.held_by(dead)
        for claim in adopted:
            del self.standing[claim]
            self.claim(claim.run_id, executor)
        return len(adopted)

    async def next_due(self) -> int | None:
        return min(self.due.values(), default=None)


class Engine:
    """An engine whose bodies do nothing until they are told to end."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self.on_end: Callable[[], None] = lambda: None
        self.carried: list[Claim] = []
        self.started: list[Claim] = []
        self.forgotten = 0
        self.fault: Exception | None = None

    async def start(self, claim: Claim) -> None:
        if self.fault is not None:
            raise self.fault
        self.started.append(claim)
        self.carried.append(claim)

    async def forget(self) -> None:
        self.forgotten += 1

    def end(self, claim: Claim) -> None:
        """The run waits or is over."""
        del self._claims.standing[claim]
        self.leave(claim)

    def leave(self, claim: Claim) -> None:
        """The body ends, the claim stands."""
        self.carried.remove(claim)
        self.on_end()


class World:
    """A dispatcher that runs, with clocks of its own."""

    def __init__(self, *, concurrency: int = 3) -> None:
        self.now = 1_000_000
        self.seconds = 0.0
        self.claims = Claims()
        self.engine = Engine(self.claims)
        self.dispatcher = Dispatcher(
            self.claims,
            self.engine,
            executor=US,
            concurrency=concurrency,
            clock=lambda: self.now,
            monotonic=lambda: self.seconds,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stopping = asyncio.Event()
        task = asyncio.create_task(self.dispatcher.run(stopping))
        yield
        stopping.set()
        self.dispatcher.wake()
        await task

    async def turn(self, *, seconds: float = 0.0) -> None:
        """Let time pass, and the dispatcher look around once."""
        self.seconds += seconds
        self.dispatcher.wake()
        for _ in range(50):
            await asyncio.sleep(0)


async def test_no_more_runs_are_claimed_than_may_be_under_way_and_the_longest_due_come_first() -> None:
    world = World(concurrency=2)
    world.claims.due = {"c": 3, "a": 1, "d": 4, "b": 2}
    async with world.running():
        await world.turn()
        assert [claim.run_id for claim in world.engine.started] == ["a", "b"]
        world.engine.end(world.engine.carried[0])
        await world.turn()
        assert [claim.run_id for claim in world.engine.started] == ["a", "b", "c"]


async def test_what_an_executor_held_when_it_died_counts_among_what_is_under_way() -> None:
    world = World(concurrency=2)
    left = [world.claims.claim(run) for run in ("a", "b")]
    world.claims.due = {"c": 1}
    async with world.running():
        await world.turn()
        assert world.engine.started == []
        world.engine.carried += left
        world.engine.end(left[0])
        await world.turn()
        assert [claim.run_id for claim in world.engine.started] == ["c"]


async def test_what_is_due_later_waits_for_its_time_and_no_longer() -> None:
    world = World()
    world.claims.due = {"a": world.now + 40}
    async with world.running():
        await world.turn()
        assert (world.engine.started, world.claims.takes) == ([], 0)
        world.now += 40
        async with asyncio.timeout(0.9):
            while not world.engine.started:  # noqa: ASYNC110 - the engine has no event for it
                await asyncio.sleep(0.001)


async def test_nothing_is_claimed_while_nothing_is_due_however_often_it_is_woken() -> None:
    world = World()
    async with world.running():
        for _ in range(5):
            await world.turn()
    assert world.claims.takes == 0


async def test_what_another_has_claimed_first_is_not_asked_for_without_a_pause() -> None:
    world = World()
    world.claims.due = {"a": 0}
    world.claims.held = True
    async with world.running():
        await world.turn()
        assert world.claims.takes < 5


async def test_a_claim_that_nobody_carries_at_two_looks_in_a_row_is_renewed() -> None:
    world = World()
    lost = world.claims.claim("a")
    async with world.running():
        await world.turn()
        assert world.engine.started == []
        await world.turn(seconds=0.5)
        assert world.engine.started == []
        await world.turn(seconds=0.5)
        [renewed] = world.engine.started
        assert (renewed.run_id, renewed.seq > lost.seq) == ("a", True)
        for _ in range(3):
            await world.turn(seconds=1)
        assert world.engine.started == [renewed]


async def test_claims_that_a_process_before_has_left_count_among_those_that_may_be_under_way() -> None:
    world = World(concurrency=2)
    world.claims.claim("left")
    world.claims.due = {"a": 1, "b": 2}
    async with world.running():
        for _ in range(3):
            await world.turn(seconds=1)
        assert [claim.run_id for claim in world.engine.started] == ["a", "left"]


async def test_a_claim_whose_body_the_engine_has_brought_back_is_left_alone() -> None:
    world = World()
    claim = world.claims.claim("a")
    async with world.running():
        await world.turn()
        world.engine.carried.append(claim)
        for _ in range(3):
            await world.turn(seconds=1)
        assert world.engine.started == []
        world.engine.leave(claim)
        for _ in range(2):
            await world.turn(seconds=1)
        assert [each.run_id for each in world.engine.started] == ["a"]


async def test_the_claims_of_an_executor_whose_counter_stands_still_are_taken_over() -> None:
    world = World()
    world.claims.claim("a", "gone")
    world.claims.claim("b", "alive")
    world.claims.counters = {"gone": 7, "alive": 7}
    async with world.running():
        for _ in range(DEAD_LOOKS + 2):
            await world.turn(seconds=BEAT_SECONDS)
            world.claims.counters["alive"] += 1
        assert [claim.run_id for claim in world.engine.started] == ["a"]
        assert set(world.claims.standing.values()) == {US, "alive"}


async def test_a_pause_of_its_own_makes_no_other_executor_dead() -> None:
    world = World()
    world.claims.claim("a", "other")
    world.claims.counters = {"other": 7}
    async with world.running():
        await world.turn()
        await world.turn(seconds=3600)
        assert set(world.claims.standing.values()) == {"other"}


async def test_it_beats_and_unblocks_when_it_starts_and_forgets_what_has_ended() -> None:
    world = World()
    async with world.running():
        await world.turn()
        before = world.claims.counters[US]
        await world.turn(seconds=BEAT_SECONDS)
        assert world.claims.counters[US] == before + 1
        await world.turn(seconds=60)
    assert (world.claims.unblocked, world.engine.forgotten) == (1, 2)


async def test_claims_that_the_engine_did_not_take_are_started_before_others_are_claimed() -> None:
    world = World(concurrency=2)
    world.claims.due = {"a": 1, "b": 2, "c": 3}
    world.engine.fault = Unavailable("a fault")
    for _ in range(2):
        with pytest.raises(Unavailable):
            await world.dispatcher.run(asyncio.Event())
    assert world.claims.takes == 1
    world.engine.fault = None
    async with world.running():
        await world.turn()
        assert [claim.run_id for claim in world.engine.started] == ["a", "b"]


async def test_of_two_executors_that_are_woken_at_once_one_has_each_run(
    storage: Storage, database_url: str, tmp_path: Path
) -> None:
    await storage.workflows.apply(PACKAGE.digest, PACKAGE.snapshot, PACKAGE.definitions)
    stopping = asyncio.Event()
    async with open_storage(database_url, tmp_path / "second.jsonl", node="second") as second:
        engines = [Engine(Claims()), Engine(Claims())]
        dispatchers = [
            Dispatcher(each.execution.claims, engine, executor=name, concurrency=RUNS)
            for each, engine, name in zip((storage, second), engines, ("local", "second"), strict=True)
        ]
        tasks = [asyncio.create_task(each.run(stopping)) for each in dispatchers]
        for _ in range(RUNS):
            await admit(storage)
            for each in dispatchers:
                each.wake()
        async with asyncio.timeout(10):
            while sum(len(engine.started) for engine in engines) < RUNS:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.005)
        stopping.set()
        for each in dispatchers:
            each.wake()
        await asyncio.gather(*tasks)
    assert len({claim.run_id for engine in engines for claim in engine.started}) == RUNS
    assert sum(len(engine.started) for engine in engines) == RUNS
