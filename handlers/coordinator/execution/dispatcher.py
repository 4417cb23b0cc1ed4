"""The dispatcher: claims the runs that are due, as many as may be under way, and gives each claim to the engine.

Its wall clock says what is due, and nothing else: executors judge each other by a clock that nobody sets.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from handlers.gateway.times import now_milliseconds
from storage.execution.records import Claim

log = logging.getLogger("gatehouse.dispatcher")

LOOK_SECONDS: Final = 1.0
BEAT_SECONDS: Final = 5.0
# At so many looks in a row, one with each beat, the counter of a dead executor has not moved.
DEAD_LOOKS: Final = 3
FORGET_SECONDS: Final = 60.0
# What was due and could not be claimed, another has claimed, or it is held since.
BREATH_SECONDS: Final = 0.05


class ClaimsPort(Protocol):
    """What storage does for a dispatcher (storage/execution/claims.py)."""

    async def enlist(self, executor: str) -> None: ...

    async def beat(self, executor: str) -> None: ...

    async def beats(self) -> Mapping[str, int]: ...

    async def take(self, executor: str, limit: int) -> list[Claim]: ...

    async def unblock(self) -> None: ...

    async def held_by(self, executor: str) -> list[Claim]: ...

    async def renew(self, claim: Claim) -> Claim | None: ...

    async def adopt(self, dead: str, executor: str) -> int: ...

    async def next_due(self) -> int | None: ...


class EnginePort(Protocol):
    """What carries the claims (engine.py)."""

    on_end: Callable[[], None]

    @property
    def carried(self) -> Collection[Claim]: ...

    async def start(self, claim: Claim) -> None: ...

    async def forget(self) -> None: ...


class Dispatcher:
    """One for each executor. `clock` gives epoch milliseconds, `monotonic` seconds."""

    def __init__(
        self,
        claims: ClaimsPort,
        engine: EnginePort,
        *,
        executor: str,
        concurrency: int,
        clock: Callable[[], int] = now_milliseconds,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._claims = claims
        self._engine = engine
        self._executor = executor
        self._concurrency = concurrency
        self._clock = clock
        self._woken = asyncio.Event()
        self._beating = _Every(BEAT_SECONDS, monotonic)
        self._looking = _Every(LOOK_SECONDS, monotonic)
        self._forgetting = _Every(FORGET_SECONDS, monotonic)
        self._others = _Others()
        self._taken: list[Claim] = []
        self._alone: set[Claim] = set()
        engine.on_end = self.wake

    def wake(self) -> None:
        """Look at once whether something is due."""
        self._woken.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Dispatch until `stopping` is set, whose setter wakes it; raises what storage and the engine raise.

        It may be run again after a failure: what it has claimed it remembers.
        """
        await self._claims.enlist(self._executor)
        await self._claims.unblock()
        while not stopping.is_set():
            self._woken.clear()
            seconds = await self._turn()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), seconds)

    async def _turn(self) -> float:
        """Do what it is time for; return after how many seconds there may be more."""
        if self._beating.due():
            await self._claims.beat(self._executor)
            await self._adopt()
        if self._looking.due():
            await self._renew()
        if self._forgetting.due():
            await self._engine.forget()
        return await self._take()

    async def _adopt(self) -> None:
        beats = await self._claims.beats()
        for dead in self._others.dead({name: count for name, count in beats.items() if name != self._executor}):
            adopted = await self._claims.adopt(dead, self._executor)
            if adopted:
                log.warning("runs of another executor are taken over", extra={"executor": dead, "runs": adopted})

    async def _renew(self) -> None:
        """Renew the claims that nobody carries, at this look and at the one before.

        In between, a body that DBOS knew of, or one that was just started, has come.
        """
        held = set(await self._claims.held_by(self._executor)) - set(self._engine.carried) - set(self._taken)
        for claim in held & self._alone:
            renewed = await self._claims.renew(claim)
            if renewed is not None:
                self._taken.append(renewed)
        self._alone = held

    async def _take(self) -> float:
        await self._start()
        while len(self._engine.carried) < self._concurrency:
            due = await self._claims.next_due()
            seconds = LOOK_SECONDS if due is None else (due - self._clock()) / 1000
            if seconds > 0:
                return min(seconds, LOOK_SECONDS)
            # A process before this one may have left claims, which are carried by and by: each death would add to them.
            in_hand = {*self._engine.carried, *await self._claims.held_by(self._executor)}
            free = self._concurrency - len(in_hand)
            if free <= 0:
                return LOOK_SECONDS
            self._taken += await self._claims.take(self._executor, free)
            if not self._taken:
                return BREATH_SECONDS
            await self._start()
        return LOOK_SECONDS

    async def _start(self) -> None:
        while self._taken:
            await self._engine.start(self._taken[0])
            self._taken.pop(0)


class _Every:
    """Whether it is time again; for the first time at once."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._next = monotonic()

    def due(self) -> bool:
        now = self._monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


class _Others:
    """The counters of the other executors, and at how many looks in a row each of them stood still."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def dead(self, beats: Mapping[str, int]) -> list[str]:
        """Note these counters and return whose has not moved for too long.

        Looks are counted, not seconds: in a pause of this process the others may have paused too.
        """
        before = self._seen
        self._seen = {}
        for name, count in beats.items():
            seen, looks = before.get(name, (None, 0))
            self._seen[name] = (count, looks + 1 if seen == count else 0)
        return [name for name, (_, looks) in self._seen.items() if looks >= DEAD_LOOKS]
