"""The install events: appended in the order of commits, read on from any id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from storage.installer.records import ATTEMPTS, EVENTS, STREAM
from storage.installer.stream import Appended, NewEvent, StoredEvent, Stream
from storage.readers import Readers
from storage.statements import Spelling
from storage.writer import Writer

# What works with events needs these too, whose rules stream.py has.
__all__ = ["PAGE_BYTES", "Events", "Head", "NewEvent", "StoredEvent"]

# A page ends before the bodies of its events come to this many bytes, but never before its first event.
PAGE_BYTES: Final = 1 << 20

# The last id that there can ever be.
LAST_ID: Final = (1 << 63) - 1


class Head(NamedTuple):
    """Where the stream stands: its last id, the latest attempt, whether that runs, and the id of its verdict."""

    last_id: int
    latest_attempt: int
    running: bool
    verdict_id: int | None


_HEAD = (
    sa.select(
        sa.func.coalesce(sa.select(STREAM.c.last_id).scalar_subquery(), 0),
        ATTEMPTS.c.attempt,
        ATTEMPTS.c.state == "running",
        ATTEMPTS.c.verdict_id,
    )
    .order_by(ATTEMPTS.c.attempt.desc())
    .limit(1)
)


class Events:
    """Every method raises Unavailable and Overloaded; append raises AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers, stream: Stream, spelling: Spelling) -> None:
        self._writer = writer
        self._readers = readers
        self._stream = stream
        mark = spelling.placeholder(EVENTS.c.id)
        # Ids have no gaps, so that a page is a range of them.
        self._page = (
            f"SELECT id, type, body FROM install_events WHERE id > {mark} AND id <= {mark}"  # noqa: S608 - all are placeholders
            f" AND begins < {PAGE_BYTES} + (SELECT begins FROM install_events WHERE id = {mark}) ORDER BY id"
        )

    async def append(self, attempt: int, events: Sequence[NewEvent]) -> list[StoredEvent] | None:
        """Append events to the attempt that runs, and move it by them: steps by theirs, its end by a verdict.

        Returns them as they stand in the stream, or None where that attempt does not run, and nothing is stored. A
        verdict is the last of its attempt. All that is appended while a commit runs shares the next one.
        """
        return await self._writer.submit(self._stream.append, Appended(attempt, events))

    async def page(self, after: int, limit: int) -> list[StoredEvent]:
        """The events that follow on `after`, in order: `limit`, or fewer where their bodies come to PAGE_BYTES."""
        return await self._readers.read(lambda connection: self._read(connection, after, limit))

    async def head(self) -> Head:
        """Where the stream stands."""
        return await self._readers.read(_head)

    def _read(self, connection: sa.Connection, after: int, limit: int) -> list[StoredEvent]:
        cursor = connection.connection.cursor()
        cursor.execute(self._page, (after, min(after + limit, LAST_ID), min(after + 1, LAST_ID)))
        return [StoredEvent(event_id, kind, body.encode()) for event_id, kind, body in cursor.fetchall()]


def _head(connection: sa.Connection) -> Head:
    row = connection.execute(_HEAD).first()
    return Head(0, 0, False, None) if row is None else Head(*row)
