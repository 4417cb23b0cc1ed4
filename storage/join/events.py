"""What nodes report: steps that decide the join, and log lines of which the newest are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import orjson
import sqlalchemy as sa

from storage.identifiers import hex_digits, parse
from storage.join import turns
from storage.join.progress import Progress, StepEvent
from storage.join.records import JOINS, from_json, position, to_json
from storage.join.refusals import Refusal, Refused
from storage.join.states import JoinState
from storage.readers import Readers
from storage.statements import Spelling, table
from storage.tables import JoinLinesRow
from storage.transaction import Transaction
from storage.writer import Writer

# What reports needs StepEvent too, whose rules progress.py has.
__all__ = ["Events", "Log", "LogLine", "LogLines", "Recorded", "Report", "StepEvent", "StoredLine"]

LINES = table(JoinLinesRow)

# The lines and the idempotency keys that are kept of a join.
LINES_KEPT: Final = 2000
KEYS_KEPT: Final = 16

# A message may be as long as a whole report: once so many characters are read, the rest waits for the next question.
READ_AT_ONCE: Final = 16 * 1024 * 1024
_ROWS_AT_ONCE: Final = 16


# A line that a node logs: its time in epoch milliseconds, its step, its message. It is a plain tuple, since a report
# has 500 of them, and they are made and spelled in half the time of one with names.
LogLine: TypeAlias = tuple[int, str | None, str]


@dataclass(frozen=True, slots=True)
class LogLines:
    """The lines of a report as they are stored: JSON text of a list of `count` items.

    They are spelled before they come to the writer's thread, which is one for all that is written.
    """

    text: bytes
    count: int

    @classmethod
    def of(cls, lines: Sequence[LogLine]) -> LogLines:
        """Spell lines."""
        return cls(orjson.dumps(lines), len(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One batch of events, recorded as a whole or not at all.

    `key` is its idempotency key, `digest` that of what must be equal for a repeat. Every step is one of the join's
    plan.
    """

    join_id: str
    steps: Sequence[StepEvent]
    lines: LogLines
    key: str | None
    digest: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """The report stands; `repeated` tells that it did before, `rafts_changed` that there is work for the keeper."""

    repeated: bool
    rafts_changed: bool


class StoredLine(NamedTuple):
    """A line in its place: numbers count from 1 and are never given again."""

    seq: int
    at: int
    step: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Log:
    """Lines of a join's log in their order, and how many of its lines are not kept any more."""

    lines: list[StoredLine]
    dropped: int


Outcome: TypeAlias = Recorded | Refused | None

# One object for all reports of which there is as much to say: pickle writes it once for a whole batch of outcomes.
_RECORDED: Final = Recorded(repeated=False, rafts_changed=False)
_REPEATED: Final = Recorded(repeated=True, rafts_changed=False)

# A report on its way to the process that commits: the digits of its join's id, its steps, the text and the number of
# its lines, its key and digest. Plain values are pickled in a thirtieth of the time that classes take.
_Item: TypeAlias = tuple[str, Sequence[StepEvent], bytes, int, str | None, str]


class Events:
    """The door by which reports come in, and the log comes out."""

    def __init__(self, writer: Writer, readers: Readers, spelling: Spelling) -> None:
        self._writer = writer
        self._readers = readers
        self._statements = ReportStatements(spelling)

    async def report(self, report: Report) -> Outcome:
        """Record one report; returns after the commit is durable, with None where there is no such join.

        KEY_REUSED where its key stood for another one, NOT_IN_TURN and ENDED with the join's state where it has not the
        turn, STEP_ORDER where a step may not go that way. Raises Unavailable, Overloaded, AuditUnavailable or
        Unstorable.
        """
        join_id = parse(report.join_id)
        return None if join_id is None else await self._writer.submit(self._report_many, _item(join_id, report))

    async def log(self, join_id: str, *, after: int, limit: int) -> Log | None:
        """At most `limit` of the lines that are kept and have a number beyond `after`; None for no such join.

        They are fewer where they are very long, and none only where there are no more.

        Raises Unavailable and Overloaded.
        """
        found = parse(join_id)
        if found is None:
            return None
        return await self._readers.read(lambda connection: _log(connection, found, after, limit))

    def _report_many(self, transaction: Transaction, items: Sequence[_Item]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        while len(outcomes) < len(items):
            outcomes += self._report_some(transaction, items[len(outcomes) :])
        return outcomes

    def _report_some(self, transaction: Transaction, items: Sequence[_Item]) -> list[Outcome]:
        """Decide reports in order until one of them moves the turn, then write what they come to.

        Only the join that has the turn is written, so that any number of its reports takes four statements.
        """
        joins = self._read(transaction, {digits for digits, *_ in items})
        outcomes: list[Outcome] = []
        for item in items:
            join = joins.get(item[0])
            outcomes.append(None if join is None else join.decide(_report(item)))
            if join is not None and join.moves_turn:
                break
        for join in joins.values():
            join.write(self._statements)
        return outcomes

    def _read(self, transaction: Transaction, join_ids: set[str]) -> dict[str, _Join]:
        rows = self._statements.read.execute(transaction.cursor, [*join_ids])
        joins = [_Join(transaction, UUID(hex_digits(row[0])), *row[1:]) for row in rows]
        if any(join.state == "pending" and join.expires_at <= transaction.now for join in joins):
            turns.expire_overdue(transaction)
            return self._read(transaction, join_ids)
        return {join.join_id.hex: join for join in joins}


class ReportStatements:
    """The SQL that every report needs, spelled for one dialect."""

    def __init__(self, spelling: Spelling) -> None:
        joins, lines = JOINS.c, LINES.c
        self.read = spelling.select(
            [joins.join_id],
            "SELECT j.join_id, j.state, j.expires_at, j.last_seq, j.recent_keys"
            " FROM item CROSS JOIN joins j WHERE j.join_id = item.join_id",
        )
        self.insert = spelling.insert([lines.join_id, lines.last_seq, lines.lines])
        mark = spelling.placeholder
        self.forget = (
            f"DELETE FROM join_lines WHERE join_id = {mark(lines.join_id)} AND last_seq <= {mark(lines.last_seq)}"  # noqa: S608 - all names are the tables'
        )
        self.progress = (
            f"UPDATE joins SET beats = beats + {mark(joins.beats)}, last_seq = {mark(joins.last_seq)},"  # noqa: S608 - all names are the tables'
            f" recent_keys = {mark(joins.recent_keys)} WHERE join_id = {mark(joins.join_id)}"
        )


class _Join:
    """A join as the reports of one transaction find it, and what they make of it."""

    def __init__(
        self, transaction: Transaction, join_id: UUID, state: JoinState, expires_at: int, last_seq: int, keys: str
    ) -> None:
        self.join_id = join_id
        self.state = state
        self.expires_at = expires_at
        self._transaction = transaction
        self._last_seq = last_seq
        self._keys: dict[str, str] = dict(from_json(keys))
        self._beats = 0
        self._lines: list[LogLines] = []
        self._progress: Progress | None = None
        self._refused: Refused | None = None

    @property
    def moves_turn(self) -> bool:
        return self._progress is not None and self._progress.moves_turn

    def decide(self, report: Report) -> Outcome:
        """What becomes of one report, in the contract's order: its key, the turn, its steps."""
        known = None if report.key is None else self._keys.get(report.key)
        if known is not None:
            return self._repeat(report, known)
        if self.state != "joining":
            return self._not_in_turn()
        rafts_changed = self._opened().take(report.steps) if report.steps else False
        if rafts_changed is None:
            return Refused(Refusal.STEP_ORDER)
        self._keep(report)
        return Recorded(repeated=False, rafts_changed=True) if rafts_changed else _RECORDED

    def write(self, statements: ReportStatements) -> None:
        """Write what the reports came to, and let the turn pass on where it is over."""
        if not self._beats:
            return
        cursor, join_id = self._transaction.cursor, self.join_id.hex
        if self._lines:
            statements.insert.execute(cursor, [join_id, self._last_seq, _stored(self._lines)])
            cursor.execute(statements.forget, [join_id, self._last_seq - LINES_KEPT])
        keys = to_json(list(self._keys.items()))
        cursor.execute(statements.progress, [self._beats, self._last_seq, keys, join_id])
        if self._progress is not None:
            self._progress.write()

    def _repeat(self, report: Report, known: str) -> Outcome:
        if known != report.digest:
            return Refused(Refusal.KEY_REUSED)
        # Who repeats a report is alive.
        self._beats += self.state == "joining"
        return _REPEATED

    def _not_in_turn(self) -> Refused:
        if self._refused is None:
            place = position(self._transaction.connection, self.join_id)
            why = Refusal.NOT_IN_TURN if self.state in ("pending", "approved") else Refusal.ENDED
            self._refused = Refused(why, self.state, place)
        return self._refused

    def _opened(self) -> Progress:
        if self._progress is None:
            self._progress = Progress(self._transaction, self.join_id)
        return self._progress

    def _keep(self, report: Report) -> None:
        self._beats += 1
        if report.lines.count:
            self._lines.append(report.lines)
            self._last_seq += report.lines.count
        if report.key is not None:
            self._keys[report.key] = report.digest
            if len(self._keys) > KEYS_KEPT:
                del self._keys[next(iter(self._keys))]


def _item(join_id: UUID, report: Report) -> _Item:
    lines = report.lines
    return join_id.hex, report.steps, lines.text, lines.count, report.key, report.digest


def _report(item: _Item) -> Report:
    digits, steps, text, count, key, digest = item
    return Report(join_id=digits, steps=steps, lines=LogLines(text, count), key=key, digest=digest)


def _stored(lines: Sequence[LogLines]) -> str:
    """The row of the last lines, with as many of them as make at least LINES_KEPT; the reader cuts what is beyond."""
    newest: list[memoryview] = []
    count = 0
    for each in reversed(lines):
        newest.append(memoryview(each.text)[1:-1])
        count += each.count
        if count >= LINES_KEPT:
            break
    return (b"[%b]" % b",".join(reversed(newest))).decode()


def _log(connection: sa.Connection, join_id: UUID, after: int, limit: int) -> Log | None:
    last_seq = connection.scalar(sa.select(JOINS.c.last_seq).where(JOINS.c.join_id == join_id))
    if last_seq is None:
        return None
    dropped = max(0, last_seq - LINES_KEPT)
    after = min(max(after, dropped), last_seq)
    query = sa.select(LINES.c.last_seq, LINES.c.lines).where(LINES.c.join_id == join_id, LINES.c.last_seq > after)
    query = query.order_by(LINES.c.last_seq).limit(limit).execution_options(yield_per=_ROWS_AT_ONCE)
    lines: list[StoredLine] = []
    read = 0
    with connection.execute(query) as rows:
        for last, text in rows:
            lines += [line for line in _numbered(last, text) if line.seq > after]
            read += len(text)
            if len(lines) >= limit or read > READ_AT_ONCE:
                break
    return Log(lines[:limit], dropped)


def _numbered(last_seq: int, lines: str) -> list[StoredLine]:
    stored = from_json(lines)
    return [StoredLine(seq, *line) for seq, line in enumerate(stored, last_seq - len(stored) + 1)]
