"""One write transaction as the aggregates see it: the switches, the audit, and the statements over many rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa

from storage.chain import Entry, Head, link
from storage.identifiers import RunIds
from storage.statements import Spelling, table
from storage.tables import AuditHeadRow, AuditRow


class Switches(NamedTuple):
    """The holds and the digest of the active package, as this transaction sees them."""

    admission_held: bool
    execution_held: bool
    package_digest: str | None


class AuditStatements:
    """The SQL that every transaction needs, spelled for one dialect."""

    def __init__(self, spelling: Spelling) -> None:
        audit, heads = table(AuditRow).c, table(AuditHeadRow).c
        self.read = spelling.select(
            [heads.node],
            "SELECT s.admission_held, s.execution_held, s.package_digest, h.seq, h.hash, h.length"
            " FROM item CROSS JOIN switches s LEFT JOIN audit_heads h ON h.node = item.node",
        )
        self.insert = spelling.insert(list(audit))
        self.head = spelling.insert(
            list(heads),
            suffix=" ON CONFLICT (node) DO UPDATE"
            " SET seq = excluded.seq, hash = excluded.hash, length = excluded.length",
        )


class Transaction:
    """A write transaction that has begun.

    `now` is its time in epoch milliseconds, `cursor` the driver's own, `before` where the audit chain ended; `lines`
    are those of the audit file once it is sealed.
    """

    def __init__(
        self, connection: sa.Connection, statements: AuditStatements, *, node: str, now: int, run_ids: RunIds
    ) -> None:
        self.connection = connection
        self.cursor: Any = connection.connection.cursor()
        self.now = now
        self.run_ids = run_ids
        self.lines: list[bytes] = []
        self._statements = statements
        self._node = node
        self._entries: list[Entry] = []
        self.switches, self.before = self._read()

    def _read(self) -> tuple[Switches, Head]:
        [(admission_held, execution_held, package_digest, *head)] = self._statements.read.execute(
            self.cursor, [self._node]
        )
        return (
            Switches(bool(admission_held), bool(execution_held), package_digest),
            Head() if head[0] is None else Head(*head),
        )

    def reread(self) -> None:
        """Read the switches again, after this transaction has changed them."""
        self.switches, _ = self._read()

    def record(self, action: str, subject: str, body: dict[str, object]) -> None:
        """Add an entry to the audit; `body` has ASCII names and no floats, so that sorting them makes it canonical."""
        self._entries.append(Entry(self.now, action, subject, orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()))

    def seal(self) -> Head:
        """Link what was recorded to the node's chain and store it; return where the chain then ends."""
        seq, previous, length = self.before
        rows: list[object] = []
        for entry in self._entries:
            seq += 1
            digest, line = link(self._node, seq, previous, entry)
            rows += (self._node, seq, previous, digest, entry.at, entry.action, entry.subject, entry.body)
            self.lines.append(line)
            length += len(line)
            previous = digest
        if rows:
            self._statements.insert.execute(self.cursor, rows)
            self._statements.head.execute(self.cursor, [self._node, seq, previous, length])
        return Head(seq, previous, length)
