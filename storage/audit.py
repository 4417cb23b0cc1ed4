"""The audit file: every line of this node's chain in order, brought level with the table that it is a copy of."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import sqlalchemy as sa

from storage.chain import Entry, Head, Link, link
from storage.errors import AuditUnavailable
from storage.statements import table
from storage.tables import AuditHeadRow, AuditRow

_log = logging.getLogger(__name__)

AUDIT, HEADS = table(AuditRow), table(AuditHeadRow)

# Rows that are read, and lines that are written, at a time while the file is brought level.
PAGE = 500

# Longer than any line: what a line tells of a request is bounded by the documents and by the size of a header.
LONGEST_LINE = 1 << 17


def head_of(connection: sa.Connection, node: str) -> Head:
    """Where the node's chain ends in the table."""
    row = connection.execute(sa.select(HEADS.c.seq, HEADS.c.hash, HEADS.c.length).where(HEADS.c.node == node)).first()
    return Head() if row is None else Head(*row)


def rows_of(connection: sa.Connection, node: str, after: int, until: int) -> Iterator[sa.Row[tuple[object, ...]]]:
    """The node's audit rows with `after` < seq <= `until`, in order; only some are in memory at a time."""
    query = sa.select(AUDIT).where(AUDIT.c.node == node, AUDIT.c.seq <= until).order_by(AUDIT.c.seq).limit(PAGE)
    while rows := list(connection.execute(query.where(AUDIT.c.seq > after))):
        yield from rows
        after = rows[-1].seq


def link_of(row: sa.Row[tuple[object, ...]]) -> Link:
    """The hash and the line that an audit row should have, by all its other columns."""
    return link(row.node, row.seq, row.prev_hash, Entry(row.at, row.action, row.subject, row.body))


class AuditFile:
    """The file and the lock beside it, which every process of the state folder takes before it writes.

    Used by one thread at a time. The table is the truth: the file is not flushed to the disk, since what a crash takes
    from it is added again at the next start.
    """

    def __init__(self, path: Path, node: str, reading: sa.Engine, *, busy_milliseconds: int) -> None:
        self._path = path
        self._node = node
        self._reading = reading
        self._patience = busy_milliseconds / 1000
        self._lock = -1
        self._file = -1
        self._identity = (0, 0)

    def append(self, lines: list[bytes], before: Head, after: Head) -> None:
        """Append the lines of one committed transaction, which moved the head from `before` to `after`.

        Where another process has not yet written what it committed before, its lines are written too. Raises
        AuditUnavailable where the file cannot be written or is not the one that was opened.
        """
        with self.locked():
            found = self._status()
            if (found.st_dev, found.st_ino) != self._identity:
                raise AuditUnavailable("the audit file was replaced")
            if found.st_size == before.length:
                self._write(lines, found.st_size)
            elif found.st_size != after.length:
                self._level()

    def catch_up(self) -> None:
        """Open the file anew and bring it level with the table; raises AuditUnavailable where that cannot be done."""
        with self.locked():
            self._open()
            self._level()

    def close(self) -> None:
        """Let go of the file and of the lock."""
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, so that no other process writes meanwhile; a fault of the file becomes AuditUnavailable."""
        try:
            if self._lock < 0:
                self._lock = os.open(f"{self._path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            self._take_lock()
            try:
                yield
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        except OSError as error:
            raise AuditUnavailable(f"the audit file cannot be written: {error.strerror}") from error

    def _take_lock(self) -> None:
        """Take the lock with the database's patience, not for ever: another process may have been stopped with it."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)

    def _status(self) -> os.stat_result:
        found = self._path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise AuditUnavailable("the audit file is not a regular file")
        return found

    def _open(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        # O_NONBLOCK keeps a named pipe in the file's place from holding the thread; it means nothing to a file.
        flags = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        self._file = os.open(self._path, flags, 0o600)
        found = self._status()
        self._identity = (found.st_dev, found.st_ino)

    def _write(self, lines: list[bytes], size: int) -> None:
        """Append all lines to the file of this size or, where the disk takes only a part of them, none."""
        rest = memoryview(b"".join(lines))
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, size)
            raise

    def _level(self) -> None:
        """Cut a torn last line, add what is missing, and set a file aside that does not fit the table."""
        with self._reading.connect() as connection, connection.begin():
            until = head_of(connection, self._node)
            last = self._last_line()
            if last is None or not self._fits(connection, last, until):
                self._set_aside()
                last = Head()
            size, page = last.length, list[bytes]()
            for row in rows_of(connection, self._node, last.seq, until.seq):
                page.append(link_of(row).line)
                if len(page) == PAGE:
                    self._write(page, size)
                    size, page = size + sum(map(len, page)), []
            self._write(page, size)

    def _last_line(self) -> Head | None:
        """Where the file ends, after cutting a torn last line; None where its end is no line of this node's chain."""
        size = os.fstat(self._file).st_size
        tail = os.pread(self._file, LONGEST_LINE, max(0, size - LONGEST_LINE))
        whole = tail.rfind(b"\n") + 1
        if not whole and size > len(tail):
            return None
        size -= len(tail) - whole
        os.ftruncate(self._file, size)
        if not whole:
            return Head()
        try:
            line = orjson.loads(tail[tail.rfind(b"\n", 0, whole - 1) + 1 : whole])
            return Head(int(line["seq"]), str(line["hash"]), size) if line["node"] == self._node else None
        except (ValueError, KeyError, TypeError):
            return None

    def _fits(self, connection: sa.Connection, last: Head, until: Head) -> bool:
        """Whether the file can be continued: its end is the table's, and with what is missing it has the right length.

        That finds lines that were lost, added or moved; one changed within its length is for `verify` to find.
        """
        if last.seq:
            known = sa.select(AUDIT.c.hash).where(AUDIT.c.node == self._node, AUDIT.c.seq == last.seq)
            if connection.scalar(known) != last.hash:
                return False
        missing = rows_of(connection, self._node, last.seq, until.seq)
        return last.length + sum(len(link_of(row).line) for row in missing) == until.length

    def _set_aside(self) -> None:
        """Keep a file that contradicts the table under another name, and begin a new one."""
        kept = self._path.with_name(f"{self._path.name}.contradicts-{time.time_ns()}")
        self._path.rename(kept)
        _log.error("the audit file contradicts the audit table: kept as %s, written anew from the table", kept.name)
        self._open()
