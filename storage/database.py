"""Storage: the one door through which a process reaches its database and its audit file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storage.aggregates import Aggregates
from storage.holds import hold_state
from storage.opening import Opened, Place
from storage.process_writer import Child, ProcessWriter
from storage.readers import Readers
from storage.writer import ThreadWriter, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What storage may use: work and reads that wait, reading connections, milliseconds to wait for a lock."""

    waiting: int = 2048
    reads_waiting: int = 256
    readers: int = 4
    busy_milliseconds: int = 2000


class Storage(Aggregates):
    """One process's storage; every coroutine is to be awaited in the loop that opened it."""

    def __init__(self, opened: Opened, writer: Writer, limits: Limits, *, recovery_only: bool) -> None:
        self.writer = writer
        self._opened = opened
        self._readers = Readers(opened.reading, size=limits.readers, waiting=limits.reads_waiting)
        super().__init__(writer, self._readers, opened.writing.dialect, recovery_only=recovery_only)

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
        opened = Opened(
            Place(url=url, node=node, audit_file=audit_file, busy_milliseconds=limits.busy_milliseconds),
            readers=limits.readers,
        )
        await asyncio.to_thread(opened.prepare)
        writer = ThreadWriter(
            opened.writing,
            opened.audit,
            node=node,
            waiting=limits.waiting,
            on_commit=on_commit,
            pace_seconds=pace_seconds,
        )
        return cls(opened, writer, limits, recovery_only=recovery_only)

    @classmethod
    async def open_beside(
        cls,
        place: Place,
        child: Child,
        *,
        recovery_only: bool,
        limits: Limits,
        on_commit: Callable[[int], None],
        on_loss: Callable[[], None],
    ) -> Storage:
        """Open the same database as the child (process_writer.start), which writes for this process, too.

        Raises what `open` raises. `on_loss` is called where the child ends before it is told to: nothing can be
        written then any more.
        """
        writer = ProcessWriter(child, waiting=limits.waiting, on_commit=on_commit, on_loss=on_loss)
        try:
            await writer.connect()
        except BaseException:
            await writer.close()
            raise
        storage = cls(Opened(place, readers=limits.readers), writer, limits, recovery_only=recovery_only)
        writer.know(storage)
        return storage

    async def close(self) -> None:
        """Finish what waits, then close every connection; may be called twice."""
        await self.writer.close()
        await self._readers.close()
        self._opened.release()

    async def ready(self) -> None:
        """One cheap read; raises Unavailable where the database does not answer."""
        await self._readers.read(hold_state)
