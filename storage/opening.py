"""The database and the audit file of a process that writes: opened, held to the schema, and let go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from storage.audit import AuditFile
from storage.connections import engine, is_fault, not_opened
from storage.migrations import require_head


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where things are stored, by which node, and how many milliseconds a lock is waited for."""

    url: str
    node: str
    audit_file: Path
    busy_milliseconds: int


class Opened:
    """The engine that writes, the one that reads, with so many connections, and the audit file."""

    def __init__(self, place: Place, *, readers: int) -> None:
        """Make them without connecting; raises ValueError where the URL is of no kind that is known."""
        busy = place.busy_milliseconds
        self.writing: sa.Engine = engine(place.url, "write", busy_milliseconds=busy)
        # One more for the audit file, which may have to be brought level.
        self.reading: sa.Engine = engine(place.url, "read", busy_milliseconds=busy, size=readers + 1)
        self.audit = AuditFile(place.audit_file, place.node, self.reading, busy_milliseconds=busy)
        self._url = place.url

    def prepare(self) -> None:
        """Connect, and bring the audit file level with the table; lets go of all where that cannot be done.

        Raises SchemaOutOfDate, Unavailable, Broken and AuditUnavailable, as Storage.open tells.
        """
        try:
            with self.reading.connect() as connection, connection.begin():
                require_head(connection)
            self.audit.catch_up()
        except BaseException as error:
            self.release()
            if isinstance(error, Exception) and is_fault(error, self.reading.dialect):
                raise not_opened(error, self._url) from error
            raise

    def release(self) -> None:
        """Close the file and every connection."""
        self.audit.close()
        self.writing.dispose()
        self.reading.dispose()
