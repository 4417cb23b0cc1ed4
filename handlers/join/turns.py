"""The keeper of turns: it carries out what the join in turn wants of its rafts, and ends what has waited too long.

All that it goes by stands in storage, so that after a restart it goes on where it was. Whose turn it is, and when one
is over, storage decides by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from handlers.join.rafts.changes import FORWARD, WANTED, Changes
from handlers.join.rafts.port import Raft, RaftRefused, RaftTrouble
from storage.errors import StorageError
from storage.join.rafts import RaftWork, Turn
from storage.join.storage import JoinStorage

log = logging.getLogger("gatehouse.join")

_LOOK_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_COMPLAINT_SECONDS: Final = 30.0
_FAULT: Final = "this server has failed at it, and its log tells where"


@dataclass(slots=True)
class _Attempts:
    """How often one change has failed, when it is due again, and what was told of it."""

    failures: int = 0
    due: float = 0.0
    told: str | None = None

    def failed(self, now: float) -> None:
        self.due = now + min(_FIRST_PAUSE * 2**self.failures, _LONGEST_PAUSE)
        self.failures += 1

    def went_on(self) -> None:
        self.failures, self.due = 0, 0.0


class _Silence:
    """For how long the join in turn has reported nothing, while nothing was done for it either."""

    def __init__(self) -> None:
        self._of: tuple[str, int] | None = None
        self._seconds = 0.0
        self._last = 0.0

    def seconds(self, turn: Turn, now: float) -> float:
        """Count on to `now`; from one look to the next at most as long as they are apart.

        A process that was stopped for a while has heard nothing in it, which is not the node's fault.
        """
        of = (turn.join_id, turn.beats)
        if of != self._of or any(work.state in FORWARD for work in turn.rafts):
            self._of, self._seconds = of, 0.0
        else:
            self._seconds += min(now - self._last, _LOOK_SECONDS)
        self._last = now
        return self._seconds

    def start_again(self) -> None:
        """Give the turn its whole time anew."""
        self._of = None


class Turns:
    """One task, and one beside it for each raft that is being changed."""

    def __init__(
        self,
        storage: JoinStorage,
        rafts: Sequence[Raft],
        *,
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = storage.rafts
        self._rafts = {raft.name: raft for raft in rafts}
        self._timeout = timeout_seconds
        self._clock = clock
        self._changes = Changes(storage.rafts, clock)
        self._silence = _Silence()
        self._woken = asyncio.Event()
        self._changing: dict[str, asyncio.Task[None]] = {}
        self._attempts: dict[tuple[str, str, str], _Attempts] = {}
        self._quiet_until = 0.0

    def wake(self) -> None:
        """Have it look at once: there is something to be done."""
        self._woken.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Keep the turns until `stopping`, and then leave off at once, whatever is under way."""
        keeping = asyncio.create_task(self._keep())
        try:
            await stopping.wait()
        finally:
            tasks = [keeping, *self._changing.values()]
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            self._woken.clear()
            pause = _LOOK_SECONDS
            try:
                pause = await self._look()
            except Exception as error:  # noqa: BLE001 - whatever happens, it is tried again a second later
                self._silence.start_again()
                self._complain(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def _look(self) -> float:
        """Do what is to be done now; returns the seconds until the next look."""
        expiry = await self._store.next_expiry()
        if expiry is not None and expiry <= time.time() * 1000:
            await self._store.expire()
        turn = await self._store.turn()
        if turn is None:
            return _LOOK_SECONDS
        if turn.state == "joining" and self._silence.seconds(turn, self._clock()) >= self._timeout:
            reason = f"the node has reported nothing for {self._timeout:g} seconds"
            await self._store.time_out(turn.join_id, turn.beats, reason)
            return 0.0
        return self._begin(turn)

    def _begin(self, turn: Turn) -> float:
        """Begin the changes that are due; returns the seconds until another one is."""
        self._attempts = {key: value for key, value in self._attempts.items() if key[0] == turn.join_id}
        now, pause = self._clock(), _LOOK_SECONDS
        for work in sorted(turn.rafts, key=attrgetter("reached"), reverse=True):
            if work.state not in WANTED:
                continue
            attempts = self._attempts.setdefault((turn.join_id, work.raft, work.state), _Attempts())
            if attempts.due > now:
                pause = min(pause, attempts.due - now)
            elif work.raft not in self._changing:
                self._changing[work.raft] = asyncio.create_task(self._change(turn, work, attempts))
            # The raft that was reached last is left first, unless it has turned out that this cannot be done yet.
            if work.state == "removing" and not attempts.failures:
                break
        return pause

    async def _change(self, turn: Turn, work: RaftWork, attempts: _Attempts) -> None:
        try:
            await self._make(turn, work)
            attempts.went_on()
        except Exception as error:  # noqa: BLE001 - whatever happens to one raft, it is tried again and the others go on
            attempts.failed(self._clock())
            await self._tell(turn, work, attempts, error)
        finally:
            del self._changing[work.raft]
            self.wake()

    async def _make(self, turn: Turn, work: RaftWork) -> None:
        raft = self._rafts.get(work.raft)
        if raft is None or raft.kind != work.kind:
            raise RaftTrouble(f"the settings have no raft of this name and the kind {work.kind}")
        try:
            await self._changes.make(turn, work, raft)
        except RaftRefused as refusal:
            if work.state not in FORWARD:
                raise RaftTrouble(str(refusal)) from refusal
            await self._store.refused(turn.join_id, work.raft, str(refusal))

    async def _tell(self, turn: Turn, work: RaftWork, attempts: _Attempts, error: Exception) -> None:
        """Let the operator know what keeps a raft from being changed, once for each thing that does."""
        if not isinstance(error, RaftTrouble):
            self._complain(error)
        text = _FAULT if not isinstance(error, RaftTrouble) else str(error)
        if text == attempts.told or isinstance(error, StorageError):
            return
        log.warning("raft %s: %s", work.raft, text, extra={"joinId": turn.join_id})
        try:
            await self._store.trouble(turn.join_id, work.raft, text)
            attempts.told = text
        except StorageError as unstored:
            self._complain(unstored)

    def _complain(self, error: Exception) -> None:
        """Log what is not a raft's trouble, but not each second."""
        now = self._clock()
        if now >= self._quiet_until:
            self._quiet_until = now + _COMPLAINT_SECONDS
            # Of a database that is away there is no more to tell, as where a request meets it.
            if isinstance(error, StorageError):
                log.warning("turns cannot be kept for now: %s", error)
            else:
                log.error("turns cannot be kept for now", exc_info=error)
