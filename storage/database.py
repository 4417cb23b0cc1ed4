"""Storage: the one door through which a process reaches its database and its audit file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from storage.admission import RunStatements
from storage.audit import AuditFile
from storage.connections import engine, is_fault, not_opened
from storage.doctor import Doctor
from storage.events import Admissions
from storage.execution.storage import ExecutionStorage
from storage.holds import Holds, hold_state
from storage.installer.storage import InstallerStorage
from storage.join.storage import JoinStorage
from storage.migrations import require_head
from storage.readers import Readers
from storage.runs import Runs
from storage.statements import Spelling
from storage.workflows import Workflows
from storage.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What storage may use: work and reads that wait, reading connections, milliseconds to wait for a lock."""

    waiting: int = 2048
    reads_waiting: int = 256
    readers: int = 4
    busy_milliseconds: int = 2000


class Storage:
    """One process's storage; every coroutine is to be awaited in the loop that opened it."""

    def __init__(
        self,
        engines: tuple[sa.Engine, sa.Engine],
        audit: AuditFile,
        limits: Limits,
        *,
        node: str,
        recovery_only: bool,
        on_commit: Callable[[int], None] | None,
        pace_seconds: float,
    ) -> None:
        self._engines = engines
        self._audit = audit
        writing, reading = engines
        spelling = Spelling(writing.dialect)
        statements = RunStatements(spelling)
        self.writer = Writer(
            writing, audit, node=node, waiting=limits.waiting, on_commit=on_commit, pace_seconds=pace_seconds
        )
        self._readers = Readers(reading, size=limits.readers, waiting=limits.reads_waiting)
        self.admissions = Admissions(self.writer, spelling, statements, recovery_only=recovery_only)
        self.runs = Runs(self.writer, self._readers, statements, recovery_only=recovery_only)
        self.holds = Holds(self.writer, self._readers)
        self.workflows = Workflows(self.writer, self._readers)
        self.execution = ExecutionStorage(self.writer, self._readers, spelling)
        self.join = JoinStorage(self.writer, self._readers, spelling)
        self.installer = InstallerStorage(self.writer, self._readers, spelling)
        self.doctor = Doctor(self._readers)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        node: str,
        audit_file: Path,
        recovery_only: bool = False,
        limits: Limits | None = None,
        on_commit: Callable[[int], None] | None = None,
        pace_seconds: float = 0,
    ) -> Storage:
        """Open the database at `url` (sqlite:///… or postgresql://…) and bring the audit file level with the table.

        `on_commit` is called in the loop with the number of items of each batch. With a pace, batches begin no sooner
        than `pace_seconds` after one another's end, and later where another process writes much (writer.py). Raises
        SchemaOutOfDate where the migrations have not been applied, Unavailable where the database cannot be reached,
        Broken where the SQLite file is none, AuditUnavailable where the audit file cannot be written, ValueError where
        the URL is of no such kind.
        """
        limits = limits or Limits()
        busy = limits.busy_milliseconds
        writing = engine(url, "write", busy_milliseconds=busy)
        reading = engine(url, "read", busy_milliseconds=busy, size=limits.readers + 1)
        audit = AuditFile(audit_file, node, reading, busy_milliseconds=busy)
        try:
            await asyncio.to_thread(_prepare, reading, audit, url)
        except BaseException:
            _release(audit, writing, reading)
            raise
        return cls(
            (writing, reading),
            audit,
            limits,
            node=node,
            recovery_only=recovery_only,
            on_commit=on_commit,
            pace_seconds=pace_seconds,
        )

    async def close(self) -> None:
        """Finish what waits, then close every connection; may be called twice."""
        await self.writer.close()
        await self._readers.close()
        _release(self._audit, *self._engines)

    async def ready(self) -> None:
        """One cheap read; raises Unavailable where the database does not answer."""
        await self._readers.read(hold_state)


def _prepare(reading: sa.Engine, audit: AuditFile, url: str) -> None:
    try:
        with reading.connect() as connection, connection.begin():
            require_head(connection)
        audit.catch_up()
    except Exception as error:
        if is_fault(error, reading.dialect):
            raise not_opened(error, url) from error
        raise


def _release(audit: AuditFile, *engines: sa.Engine) -> None:
    audit.close()
    for each in engines:
        each.dispose()
