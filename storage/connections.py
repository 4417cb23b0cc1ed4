"""Connections to SQLite and PostgreSQL: how they open, how their transactions begin, which errors mean the database."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import sqlalchemy as sa

from storage.errors import Broken, Unavailable

# Every write transaction takes this advisory lock of its PostgreSQL database: what BEGIN IMMEDIATE is on SQLite.
# Writers follow one another, so that numbers from a sequence become visible in the order in which they were given.
WRITE_LOCK = 0x67617465

# A statement is kept for each table and number of rows, beyond what both drivers keep by default.
STATEMENTS_KEPT = 512

_READING = ("query_only=ON",)

# A larger log between two checkpoints (in pages of 4 KiB) writes a page that changes often less often; the cache (in
# KiB) keeps the upper pages of the indexes on random ids in memory.
_WRITING = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "wal_autocheckpoint=4000", "cache_size=-4000")

Purpose = Literal["write", "read", "create"]


def engine(url: str, purpose: Purpose, *, busy_milliseconds: int = 2000, size: int = 1) -> sa.Engine:
    """An engine with a pool of `size` connections that wait at most `busy_milliseconds` for a lock.

    Write transactions begin as such, read transactions see one snapshot and cannot write, "create" alone makes a
    missing SQLite file. Raises ValueError where the URL is neither sqlite:///PATH, whose path is taken as it is, nor
    postgresql://….
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and rest not in ("/", "/:memory:"):
        return _sqlite(Path(rest[1:]).absolute(), purpose, busy_milliseconds, size)
    if scheme == "postgresql":
        parsed = sa.make_url(url).set(drivername="postgresql+psycopg")
        return _postgresql(parsed, purpose, busy_milliseconds, size)
    raise ValueError("the database URL must be sqlite:///PATH or postgresql://…")


def is_fault(error: Exception, dialect: sa.Dialect) -> bool:
    """Whether the error is the database's (away, locked, full, broken), and not that of the work it was given."""
    if isinstance(error, sa.exc.DBAPIError) and isinstance(error.orig, Exception):
        error = error.orig
    driver: Any = dialect.loaded_dbapi
    faults = (driver.OperationalError, driver.InternalError, driver.InterfaceError, sa.exc.TimeoutError, Unavailable)
    return isinstance(error, faults) or type(error) is driver.DatabaseError


def not_opened(error: Exception, url: str) -> Unavailable:
    """The error that tells of a database which could not be opened or read, by its file, or by its host and port."""
    if url.startswith("sqlite:"):
        place = url.removeprefix("sqlite:///")
    else:
        parsed = sa.make_url(url)
        place = f"PostgreSQL at {parsed.host or 'the default host'}" + (f":{parsed.port}" if parsed.port else "")
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return Broken(f"{place} is no SQLite database, or is damaged")
    return Unavailable(f"{place} cannot be reached, read or written")


def _sqlite(path: Path, purpose: Purpose, busy_milliseconds: int, size: int) -> sa.Engine:
    mode = "rwc" if purpose == "create" else "rw"

    def connect() -> sqlite3.Connection:
        if purpose == "create":
            # Made here, a new file is its owner's alone; what keeps it from being made, SQLite reports below.
            with contextlib.suppress(OSError):
                path.touch(mode=0o600)
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=busy_milliseconds / 1000,
            cached_statements=STATEMENTS_KEPT,
        )
        for setting in _READING if purpose == "read" else _WRITING:
            connection.execute(f"PRAGMA {setting}")
        return connection

    made = sa.create_engine(
        "sqlite://", creator=connect, poolclass=sa.QueuePool, pool_size=size, max_overflow=0, hide_parameters=True
    )
    begin = "BEGIN" if purpose == "read" else "BEGIN IMMEDIATE"

    @sa.event.listens_for(made, "begin")
    def _begin(connection: sa.Connection) -> None:
        _refuse_moved_file(connection, path)
        connection.connection.cursor().execute(begin)

    return made


def _refuse_moved_file(connection: sa.Connection, path: Path) -> None:
    """Refuse a SQLite file that was moved, deleted or replaced: what is written to it would be lost with it."""
    try:
        there = path.stat()
    except OSError:
        there = None
    identity = there and (there.st_dev, there.st_ino)
    if identity != connection.info.setdefault("file", identity) or identity is None:
        connection.invalidate()
        raise Unavailable("the database file is not where it was")


def _postgresql(url: sa.URL, purpose: Purpose, busy_milliseconds: int, size: int) -> sa.Engine:
    settings = {
        "synchronous_commit": "on",
        "lock_timeout": busy_milliseconds,
        "statement_timeout": 5 * busy_milliseconds,
        "default_transaction_read_only": "on" if purpose == "read" else "off",
    }
    made = sa.create_engine(
        url,
        connect_args={
            "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
            "connect_timeout": 2,
            "tcp_user_timeout": 5 * busy_milliseconds,
            "application_name": "gatehouse",
        },
        isolation_level="REPEATABLE READ" if purpose == "read" else "READ COMMITTED",
        poolclass=sa.QueuePool,
        pool_size=size,
        max_overflow=0,
        hide_parameters=True,
    )

    @sa.event.listens_for(made, "connect")
    def _connect(connection: Any, _: object) -> None:
        connection.prepared_max = STATEMENTS_KEPT

    if purpose != "read":

        @sa.event.listens_for(made, "begin")
        def _begin(connection: sa.Connection) -> None:
            connection.connection.cursor().execute("SELECT pg_advisory_xact_lock(%s)", (WRITE_LOCK,))

    return made
