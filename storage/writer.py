"""The group-commit writer: all work that waits shares one transaction, and each piece of it has its own outcome."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import sqlalchemy as sa

from storage.audit import AuditFile
from storage.chain import Head
from storage.connections import is_fault
from storage.errors import AuditUnavailable, Overloaded, StorageError, Unavailable, Unstorable
from storage.identifiers import RunIds
from storage.statements import Spelling
from storage.transaction import AuditStatements, Transaction

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_TEXTS: Final[dict[type[StorageError], str]] = {
    AuditUnavailable: "the audit file cannot be written",
    Unavailable: "the database cannot do its work",
    Unstorable: "this item cannot be stored",
}

# A writer that leaves the database to others rests so many times as long as it had to wait for them, but not for ever:
# who waits long has come upon one that writes without a pause, which each batch of ours would hold up.
REST_FOR_WAIT: Final = 10
LONGEST_REST_SECONDS: Final = 0.25

# Does work of one kind, for all its items at once and in their order. It may be run again after a rollback.
Kind: TypeAlias = Callable[[Transaction, Sequence[Item]], Sequence[Outcome]]


def one_by_one(work: Callable[[Transaction, Item], Outcome]) -> Kind[Item, Outcome]:
    """A kind of work that is done for each item by itself."""

    def kind(transaction: Transaction, items: Sequence[Item]) -> Sequence[Outcome]:
        return [work(transaction, item) for item in items]

    return kind


class Waiting(NamedTuple):
    """One piece of work and the future of who waits for it."""

    kind: Kind[Any, Any]
    item: object
    future: asyncio.Future[Any]


@dataclass(slots=True)
class FailurePoints:
    """Where a test may make the writer fail, in the writer's thread; None everywhere else."""

    before_commit: Callable[[Transaction], None] | None = None
    after_commit: Callable[[Transaction], None] | None = None


class Writer:
    """One thread with one connection. What waits while it commits is its next batch: it never waits for more."""

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
        self.failure_points = FailurePoints()
        self._engine = writing
        self._audit = audit
        self._node = node
        self._limit = waiting
        self._on_commit = on_commit
        self._pace = pace_seconds
        self._waited = 0.0
        self._resting_until = 0.0
        self._loop = asyncio.get_running_loop()
        self._statements = AuditStatements(Spelling(writing.dialect))
        self._run_ids = RunIds()
        self._connection: sa.Connection | None = None
        self._file_is_level = True
        self._unanswered = 0
        self._closed = False
        self._gathered: list[Waiting] = []
        self._batches: queue.SimpleQueue[list[Waiting] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="storage-writer", daemon=True)
        self._thread.start()

    async def submit(self, kind: Kind[Item, Outcome], item: Item) -> Outcome:
        """Have one item written; returns its outcome once that is durable, whatever becomes of the caller.

        Raises Overloaded where too much waits, Unavailable, AuditUnavailable, or Unstorable where this item alone
        failed.
        """
        if self._closed:
            raise Unavailable("storage is closed")
        if self._unanswered >= self._limit:
            raise Overloaded("too much work waits for the database")
        self._unanswered += 1
        future: asyncio.Future[Outcome] = self._loop.create_future()
        # What is submitted in one turn of the loop goes to the thread together at the end of that turn, so that the
        # first of many that come at once does not pay for a commit of its own.
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(Waiting(kind, item, future))
        return await future

    async def close(self) -> None:
        """Finish what waits and end the thread."""
        self._closed = True
        self._hand_over()
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join)

    def _hand_over(self) -> None:
        if self._gathered:
            self._batches.put(self._gathered)
            self._gathered = []

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
            self._loop.call_soon_threadsafe(self._answer, batch, self._run(batch))
            self._resting_until = time.monotonic() + rest_seconds(self._pace, self._waited)
            if last:
                break
        self._disconnect()

    def _rest(self) -> None:
        """Leave the database to other processes for a while after a batch; what comes meanwhile joins the next."""
        rest = self._resting_until - time.monotonic()
        if rest > 0 and not self._closed:
            time.sleep(rest)

    def _answer(self, batch: list[Waiting], results: list[object]) -> None:
        self._unanswered -= len(batch)
        if self._on_commit is not None:
            self._on_commit(len(batch))
        for waiting, result in zip(batch, results, strict=True):
            if waiting.future.done():
                continue
            if isinstance(result, Exception):
                waiting.future.set_exception(result)
            else:
                waiting.future.set_result(result)

    def _run(self, batch: list[Waiting]) -> list[object]:
        """The outcome or the error of each item, in order."""
        try:
            self._catch_up()
            return self._transact(batch)
        except AuditUnavailable as error:
            return _errors(AuditUnavailable, batch, error)
        except Exception as error:  # noqa: BLE001 - whatever an item does fails that item and never ends the thread
            if is_fault(error, self._engine.dialect):
                self._disconnect()
                return _errors(Unavailable, batch, error)
            if len(batch) == 1:
                return _errors(Unstorable, batch, error)
        return self._run_apart(batch)

    def _run_apart(self, batch: list[Waiting]) -> list[object]:
        """Run each item in a transaction of its own; once the database fails there is no use in trying the others."""
        results: list[object] = []
        for place, waiting in enumerate(batch):
            results += self._run([waiting])
            if isinstance(error := results[-1], Unavailable | AuditUnavailable):
                return results + _errors(type(error), batch[place + 1 :], error)
        return results

    def _catch_up(self) -> None:
        """After a batch whose lines could not be written, refuse further ones until the file is level again."""
        if not self._file_is_level:
            self._audit.catch_up()
            self._file_is_level = True

    def _transact(self, batch: list[Waiting]) -> list[object]:
        """Run a batch in one transaction, make it durable, then export what it recorded."""
        connection = self._connect()
        began = time.monotonic()
        with connection.begin() as begun:
            self._waited = time.monotonic() - began
            transaction = Transaction(
                connection, self._statements, node=self._node, now=time.time_ns() // 1_000_000, run_ids=self._run_ids
            )
            results: list[object] = []
            for kind, group in groupby(batch, key=attrgetter("kind")):
                results += kind(transaction, [waiting.item for waiting in group])
            after = transaction.seal()
            self._commit(transaction, begun)
        self._export(transaction, after)
        return results

    def _commit(self, transaction: Transaction, begun: sa.RootTransaction) -> None:
        if self.failure_points.before_commit is not None:
            self.failure_points.before_commit(transaction)
        try:
            begun.commit()
            if self.failure_points.after_commit is not None:
                self.failure_points.after_commit(transaction)
        except Exception as error:
            # Whatever a COMMIT says, the work may stand.
            raise Unavailable("the result of a COMMIT is unknown") from error

    def _export(self, transaction: Transaction, after: Head) -> None:
        if not transaction.lines:
            return
        try:
            self._audit.append(transaction.lines, transaction.before, after)
        except Exception as error:
            self._file_is_level = False
            raise AuditUnavailable("the audit file could not be written") from error

    def _connect(self) -> sa.Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        """Let go of the connection, whatever state it is in; the next batch makes a new one."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


def rest_seconds(pace_seconds: float, waited: float) -> float:
    """How long to leave the database to others after a batch that waited so long for it; without a pace, not at all."""
    return min(pace_seconds + REST_FOR_WAIT * waited, LONGEST_REST_SECONDS) if pace_seconds else 0.0


def _errors(kind: type[StorageError], batch: list[Waiting], cause: Exception) -> list[object]:
    """An error for each item; each has its own, since what awaits them adds its traceback."""
    errors: list[object] = []
    for _ in batch:
        error = kind(_TEXTS[kind])
        error.__cause__ = cause
        errors.append(error)
    return errors
