"""Commits batches: all work of a batch shares one transaction, and each piece of it has its own outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import sqlalchemy as sa

from storage.audit import AuditFile
from storage.chain import Head
from storage.connections import is_fault
from storage.errors import AuditUnavailable, StorageError, Unavailable, Unstorable
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

# Does work of one kind, for all its items at once and in their order. It may be run again after a rollback.
Kind: TypeAlias = Callable[[Transaction, Sequence[Item]], Sequence[Outcome]]


@dataclass(frozen=True, slots=True)
class one_by_one(Generic[Item, Outcome]):  # noqa: N801 - it is used as the function that it stands for.
    """A kind of work that is done for each item by itself."""

    work: Callable[[Transaction, Item], Outcome]

    def __call__(self, transaction: Transaction, items: Sequence[Item]) -> Sequence[Outcome]:
        """Do it for all of them, in their order."""
        return [self.work(transaction, item) for item in items]


class Work(NamedTuple):
    """One piece of work."""

    kind: Kind[Any, Any]
    item: Any


@dataclass(slots=True)
class FailurePoints:
    """Where a test may make a commit fail, in the thread that commits; None everywhere else."""

    before_commit: Callable[[Transaction], None] | None = None
    after_commit: Callable[[Transaction], None] | None = None


class Committer:
    """One connection for one thread, which takes the work of others batch by batch.

    `waited` is how long the last batch waited for other processes to let go of the database, in seconds.
    """

    def __init__(
        self, writing: sa.Engine, audit: AuditFile, *, node: str, failure_points: FailurePoints | None = None
    ) -> None:
        self.failure_points = failure_points or FailurePoints()
        self.waited = 0.0
        self._engine = writing
        self._audit = audit
        self._node = node
        self._statements = AuditStatements(Spelling(writing.dialect))
        self._run_ids = RunIds()
        self._connection: sa.Connection | None = None
        self._file_is_level = True

    def run(self, batch: Sequence[Work]) -> list[object]:
        """The outcome or the error (a StorageError) of each piece of work, in order; returns once that is durable."""
        try:
            self._catch_up()
            return self._transact(batch)
        except AuditUnavailable as error:
            return _errors(AuditUnavailable, batch, error)
        except Exception as error:  # noqa: BLE001 - whatever an item does fails that item and never ends the thread
            if is_fault(error, self._engine.dialect):
                self.disconnect()
                return _errors(Unavailable, batch, error)
            if len(batch) == 1:
                return _errors(Unstorable, batch, error)
        return self._run_apart(batch)

    def _run_apart(self, batch: Sequence[Work]) -> list[object]:
        """Run each item in a transaction of its own; once the database fails there is no use in trying the others."""
        results: list[object] = []
        for place, work in enumerate(batch):
            results += self.run([work])
            if isinstance(error := results[-1], Unavailable | AuditUnavailable):
                return results + _errors(type(error), batch[place + 1 :], error)
        return results

    def _catch_up(self) -> None:
        """After a batch whose lines could not be written, refuse further ones until the file is level again."""
        if not self._file_is_level:
            self._audit.catch_up()
            self._file_is_level = True

    def _transact(self, batch: Sequence[Work]) -> list[object]:
        """Run a batch in one transaction, make it durable, then export what it recorded."""
        connection = self._connect()
        began = time.monotonic()
        with connection.begin() as begun:
            self.waited = time.monotonic() - began
            transaction = Transaction(
                connection, self._statements, node=self._node, now=time.time_ns() // 1_000_000, run_ids=self._run_ids
            )
            results: list[object] = []
            for kind, group in groupby(batch, key=attrgetter("kind")):
                results += kind(transaction, [work.item for work in group])
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

    def disconnect(self) -> None:
        """Let go of the connection, whatever state it is in; the next batch makes a new one."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


def _errors(kind: type[StorageError], batch: Sequence[Work], cause: Exception) -> list[object]:
    """An error for each item; each has its own, since what awaits them adds its traceback."""
    errors: list[object] = []
    for _ in batch:
        error = kind(_TEXTS[kind])
        error.__cause__ = cause
        errors.append(error)
    return errors
