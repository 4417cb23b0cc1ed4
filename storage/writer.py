"""The group-commit writer as its callers see it: what they submit is gathered, and each awaits its own outcome."""

from __future__ import annotations

import abc
import asyncio
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from storage.audit import AuditFile
from storage.committer import Committer, FailurePoints, Kind, Work
from storage.errors import Overloaded, Unavailable

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

# A writer that leaves the database to others rests so many times as long as it had to wait for them, but not for ever:
# who waits long has come upon one that writes without a pause, which each batch of ours would hold up.
REST_FOR_WAIT: Final = 10
LONGEST_REST_SECONDS: Final = 0.25


class Writer(abc.ABC):
    """What waits while a batch is committed is the next one: no batch waits for more.

    What is submitted in one turn of the loop sets out together at its end, so that the first of many that come at once
    does not pay for a commit of its own, and before where there are `_most` of it.

    `failure_points` are where a test may make a commit fail, if it is this process that commits.
    """

    _most = sys.maxsize

    def __init__(self, *, waiting: int, on_commit: Callable[[int], None] | None = None) -> None:
        self.failure_points = FailurePoints()
        self._limit = waiting
        self._on_commit = on_commit
        self._gathered: list[Any] = []
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing is taken any more."""
        return self._closed

    async def submit(self, kind: Kind[Item, Outcome], item: Item) -> Outcome:
        """Have one item written; returns its outcome once that is durable, whatever becomes of the caller.

        Raises Overloaded where too much waits, Unavailable, AuditUnavailable, or Unstorable where this item alone
        failed.
        """
        if self._closed:
            raise Unavailable("storage is closed")
        if len(self._waiting) >= self._limit:
            raise Overloaded("too much work waits for the database")
        if self._loop is None:
            # It is asked for once: each time that takes a call of the system, to see that this is no fork.
            self._loop = asyncio.get_running_loop()
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(self._packed(kind, item))
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._waiting.append(future)
        if len(self._gathered) == self._most:
            self._hand_over()
        return await future

    async def close(self) -> None:
        """Finish what waits, and end."""
        self._closed = True
        self._hand_over()
        await self._end()

    def _hand_over(self) -> None:
        if self._gathered:
            pieces, self._gathered = self._gathered, []
            self._send(pieces)

    @abc.abstractmethod
    def _packed(self, kind: Kind[Any, Any], item: Any) -> Any:
        """One piece of work as `_send` takes it."""

    @abc.abstractmethod
    def _send(self, pieces: list[Any]) -> None:
        """Have work done after all that was sent before; its results go to `_answer`, in the same order."""

    @abc.abstractmethod
    async def _end(self) -> None:
        """Wait for what was sent, and let go of everything."""

    def _answer(self, results: Sequence[object]) -> None:
        """Give the oldest of what waits its results, outcomes and errors, all of which shared one commit."""
        if self._on_commit is not None:
            self._on_commit(len(results))
        self._settle(results)

    def _settle(self, results: Sequence[object]) -> None:
        for result in results:
            future = self._waiting.popleft()
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


class ThreadWriter(Writer):
    """Commits in a thread of this process, with one connection.

    Where each statement has to win the interpreter's lock from a busy loop, a process of its own commits more
    (process_writer.py).
    """

    def __init__(
        self,
        writing: sa.Engine,
        audit: AuditFile,
        *,
        node: str,
        waiting: int,
        on_commit: Callable[[int], None] | None = None,
        pace_seconds: float = 0,
    ) -> None:
        super().__init__(waiting=waiting, on_commit=on_commit)
        self._committer = Committer(writing, audit, node=node, failure_points=self.failure_points)
        self._pace = pace_seconds
        self._resting_until = 0.0
        self._answering = asyncio.get_running_loop().call_soon_threadsafe
        self._batches: queue.SimpleQueue[list[Work] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="storage-writer", daemon=True)
        self._thread.start()

    def _packed(self, kind: Kind[Any, Any], item: Any) -> Work:
        return Work(kind, item)

    def _send(self, pieces: list[Work]) -> None:
        self._batches.put(pieces)

    async def _end(self) -> None:
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join)

    def _serve(self) -> None:
        """The thread: take everything that waits, run it, answer all of it with one call into the loop."""
        while (batch := self._batches.get()) is not None:
            last = False
            self._rest()
            while not self._batches.empty():
                more = self._batches.get()
                if more is None:
                    last = True
                    break
                batch += more
            self._answering(self._answer, self._committer.run(batch))
            self._resting_until = time.monotonic() + rest_seconds(self._pace, self._committer.waited)
            if last:
                break
        self._committer.disconnect()

    def _rest(self) -> None:
        """Leave the database to other processes for a while after a batch; what comes meanwhile joins the next."""
        rest = self._resting_until - time.monotonic()
        if rest > 0 and not self._closed:
            time.sleep(rest)


def rest_seconds(pace_seconds: float, waited: float) -> float:
    """How long to leave the database to others after a batch that waited so long for it; without a pace, not at all."""
    return min(pace_seconds + REST_FOR_WAIT * waited, LONGEST_REST_SECONDS) if pace_seconds else 0.0
