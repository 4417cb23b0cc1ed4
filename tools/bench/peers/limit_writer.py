"""The thread of the limit programs that commits: all that waits is one transaction."""

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Writer(threading.Thread, Generic[Item, Outcome]):
    """One thread that takes all that waits, commits it as one transaction and hands out the outcomes at once.

    `work` decides and stores a batch inside the open transaction, with an outcome for each item.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        database: str,
        work: Callable[[sqlite3.Connection, list[Item]], Sequence[Outcome]],
    ) -> None:
        super().__init__(daemon=True)
        self._loop = loop
        self._database = database
        self._work = work
        self._waiting: deque[tuple[Item, asyncio.Future[Outcome]]] = deque()
        self._wake = threading.Event()

    def submit(self, item: Item) -> asyncio.Future[Outcome]:
        """What will have come of one item, once that is durable."""
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._waiting.append((item, future))
        self._wake.set()
        return future

    def run(self) -> None:
        """Commit batches for ever."""
        connection = sqlite3.connect(self._database, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        while True:
            self._wake.wait()
            self._wake.clear()
            batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if batch:
                connection.execute("BEGIN IMMEDIATE")
                outcomes = self._work(connection, [item for item, _ in batch])
                connection.execute("COMMIT")
                self._loop.call_soon_threadsafe(_settle, batch, outcomes)


def _settle(batch: Sequence[tuple[Item, asyncio.Future[Outcome]]], outcomes: Sequence[Outcome]) -> None:
    """Give every item of a batch its outcome, unless its client has left."""
    for (_, future), outcome in zip(batch, outcomes, strict=True):
        if not future.done():
            future.set_result(outcome)
