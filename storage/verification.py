"""Verifying the audit: every chain in the table, and this node's file against it; nothing is mended here."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

import orjson
import sqlalchemy as sa

from storage.audit import AUDIT, HEADS, AuditFile, head_of, link_of, rows_of
from storage.chain import GENESIS
from storage.connections import engine, is_fault, not_opened
from storage.errors import AuditUnavailable
from storage.migrations import require_head

What = Literal[
    "row changed", "row missing", "head differs", "line changed", "line missing", "line without row", "file unreadable"
]

_EVERY = 2**63 - 1

# A report names this many faults, then ends: one that is broken all over need not be told whole.
FAULTS_TOLD = 100


@dataclass(frozen=True, slots=True)
class Fault:
    """One disagreement, at this place of this node's chain."""

    node: str
    seq: int
    what: What


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """How many rows (of all nodes) and lines (of this node's file) were read, and the first faults found."""

    rows: int
    lines: int
    faults: tuple[Fault, ...]


def verify(url: str, *, node: str, audit_file: Path, busy_milliseconds: int = 2000) -> Verification:
    """Check every chain of the database at `url`, and that the file holds the chain of `node`, line by line.

    May run beside a server. Raises SchemaOutOfDate, Unavailable where the database cannot be read, and Broken.
    """
    reading = engine(url, "read", busy_milliseconds=busy_milliseconds)
    file = AuditFile(audit_file, node, reading, busy_milliseconds=busy_milliseconds)
    try:
        with reading.connect() as connection:
            lines = _settle(connection, file, audit_file, node, busy_milliseconds / 1000)
            with contextlib.closing(lines):
                return _Check(connection, node, lines).run()
    except Exception as error:
        if is_fault(error, reading.dialect):
            raise not_opened(error, url) from error
        raise
    finally:
        file.close()
        reading.dispose()


def _settle(connection: sa.Connection, file: AuditFile, path: Path, node: str, patience: float) -> _Lines:
    """Begin the snapshot that is verified, and return what the file held at that moment.

    A server commits before it writes its lines, so a file that seems to end too early is given a little time.
    """
    require_head(connection)
    deadline = time.monotonic() + patience
    while True:
        # The snapshot has to be younger than the lock: then no line can be younger than the snapshot.
        connection.rollback()
        try:
            with file.locked():
                length = head_of(connection, node).length
                size = path.stat().st_size
                if size >= length or time.monotonic() > deadline:
                    return _Lines(path.open("rb"), size)
        except AuditUnavailable:
            return _Lines(None, 0)
        time.sleep(0.01)


class _Lines:
    """The lines of the file in their order, as far as its size at the start; the next one is in sight."""

    def __init__(self, file: BinaryIO | None, size: int) -> None:
        self.readable = file is not None
        self.read = 0
        self._file = file or io.BytesIO()
        self._left = size
        self._passed = 0
        self._next: bytes | None = None
        self._advance()

    def close(self) -> None:
        self._file.close()

    def faults(self, seq: int, line: bytes) -> Iterator[tuple[int, What]]:
        """Compare the next line with the one that the row at `seq` stands for, and pass it where it is that row's.

        Lines of rows between the last one compared and this one are passed unread: their rows are at fault already.
        """
        while self._next is not None and self._next != line:
            place = _seq(self._next)
            if place is not None and place > seq:
                break
            if place is None or place == seq:
                yield seq, "line changed"
                return self._pass(seq)
            if place <= self._passed:
                yield place, "line without row"
            self._advance()
        if self._next == line:
            return self._pass(seq)
        yield seq, "line missing"

    def rest(self, seq: int) -> Iterator[tuple[int, What]]:
        """What stands in the file after the last row; up to the chain's head, which is at `seq`, that is told of."""
        while self._next is not None:
            place = _seq(self._next)
            if place is None or place > seq or place <= self._passed:
                yield place or seq + 1, "line without row"
            self._advance()

    def _pass(self, seq: int) -> None:
        self._passed = seq
        self._advance()

    def _advance(self) -> None:
        line = self._file.readline(self._left)
        self._left -= len(line)
        self._next = line or None
        self.read += bool(line)


def _seq(line: bytes) -> int | None:
    try:
        found = orjson.loads(line)["seq"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None


class _Check:
    def __init__(self, connection: sa.Connection, node: str, lines: _Lines) -> None:
        self._connection = connection
        self._node = node
        self._lines = lines
        self._rows = 0

    def run(self) -> Verification:
        faults = tuple(islice(self._faults(), FAULTS_TOLD))
        return Verification(rows=self._rows, lines=self._lines.read, faults=faults)

    def _faults(self) -> Iterator[Fault]:
        if not self._lines.readable:
            yield Fault(self._node, 0, "file unreadable")
        for node in self._nodes():
            compared = self._lines if node == self._node and self._lines.readable else None
            for seq, what in self._chain(node, compared):
                yield Fault(node, seq, what)

    def _nodes(self) -> list[str]:
        """Every node that has rows or a head, and this one, whose file may hold lines of rows that are gone."""
        known = sa.union(sa.select(AUDIT.c.node), sa.select(HEADS.c.node))
        return sorted({self._node, *self._connection.scalars(known)})

    def _chain(self, node: str, lines: _Lines | None) -> Iterator[tuple[int, What]]:
        """Walk one chain; a row whose own hash is wrong is told as such and not compared with the file."""
        head = head_of(self._connection, node)
        seq, previous = 0, GENESIS
        for row in rows_of(self._connection, node, 0, _EVERY):
            self._rows += 1
            right = link_of(row)
            if row.seq != seq + 1:
                yield seq + 1, "row missing"
            if right.hash != row.hash or (row.seq == seq + 1 and row.prev_hash != previous):
                yield row.seq, "row changed"
            elif lines is not None:
                yield from lines.faults(row.seq, right.line)
            seq, previous = row.seq, row.hash
        if (seq, previous) != (head.seq, head.hash):
            yield seq + 1, "head differs"
        if lines is not None:
            yield from lines.rest(head.seq)
