"""How events join the stream within a write transaction: their ids and texts, and what they make of their attempt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
import orjson

from storage.installer.records import ATTEMPTS, EVENTS, STREAM, StepRecord, read_steps, write_steps
from storage.installer.states import EventStatus, EventType, Outcome
from storage.statements import Spelling
from storage.transaction import Transaction

# What the audit tells of a reason: its lines are bounded, what an attempt tells is not.
_TOLD = 1000

# The line ends that JSON may hold unescaped. A stream of events does not end a line there, but many a reader of lines
# does, str.splitlines among them.
_LINE_ENDS: Final = re.compile(b"\xc2\x85|\xe2\x80[\xa8\xa9]")
_ESCAPED: Final = {b"\xc2\x85": b"\\u0085", b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}


class NewEvent(NamedTuple):
    """An event that is to be appended; what is None is absent from it."""

    type: EventType
    step: str | None = None
    status: EventStatus | None = None
    line: str | None = None
    outcome: Outcome | None = None
    detail: str | None = None


class StoredEvent(NamedTuple):
    """An event in its place: ids count from 1 without gaps; `body` is the JSON text of an InstallEvent in UTF-8."""

    id: int
    type: str
    body: bytes


class _InstallEvent(msgspec.Struct, omit_defaults=True):
    """The members of an event's body, after `at` in the order of NewEvent's."""

    id: int
    attempt: int
    type: str
    at: str
    step: str | None = None
    status: str | None = None
    line: str | None = None
    outcome: str | None = None
    detail: str | None = None


_encode: Final = msgspec.json.Encoder().encode


class Appended(NamedTuple):
    """Events that are to be appended to an attempt together."""

    attempt: int
    events: Sequence[NewEvent]


class Stream:
    """The way into the stream: ids are given in the transaction that stores them, which no other overlaps."""

    def __init__(self, spelling: Spelling) -> None:
        self._statements = StreamStatements(spelling)

    def append(self, transaction: Transaction, items: Sequence[Appended]) -> list[list[StoredEvent] | None]:
        """Append each item's events to the attempt that runs; None for an item of another attempt.

        Any number of items takes a few statements. Raises ValueError where an event follows a verdict or is of a step
        that the attempt does not have.
        """
        transaction.cursor.execute(self._statements.read)
        row = transaction.cursor.fetchone()
        if row is None:
            return [None] * len(items)
        running = _Running(transaction, *row)
        outcomes = [running.take(item) for item in items]
        running.write(self._statements)
        return outcomes


class StreamStatements:
    """The SQL by which events are appended, spelled for one dialect."""

    def __init__(self, spelling: Spelling) -> None:
        mark, attempts, events, stream = spelling.placeholder, ATTEMPTS.c, EVENTS.c, STREAM.c
        self.read = (
            "SELECT a.attempt, a.steps, COALESCE(s.last_id, 0), COALESCE(s.length, 0)"
            " FROM install_attempts a LEFT JOIN install_stream s ON s.id = 1 WHERE a.state = 'running'"
        )
        self.insert = spelling.insert([events.id, events.attempt, events.type, events.begins, events.body])
        self.counter = spelling.insert(
            [stream.last_id, stream.length],
            {stream.id: "1"},
            " ON CONFLICT (id) DO UPDATE SET last_id = excluded.last_id, length = excluded.length",
        )
        changed = [attempts.state, attempts.ended_at, attempts.detail, attempts.verdict_id, attempts.steps]
        values = ", ".join(f"{column.name} = {mark(column)}" for column in changed)
        self.update = f"UPDATE install_attempts SET {values} WHERE attempt = {mark(attempts.attempt)}"  # noqa: S608 - all names are the tables'


class _Running:
    """The attempt that runs, as the appends of one transaction find it, and what they make of it."""

    def __init__(self, transaction: Transaction, attempt: int, steps: str, last_id: int, length: int) -> None:
        self._transaction = transaction
        self._attempt = attempt
        self._steps = {step.name: step for step in read_steps(steps)}
        self._last_id = last_id
        self._length = length
        self._at = _rfc3339(transaction.now)
        self._rows: list[object] = []
        self._moved = False
        self._verdict: NewEvent | None = None

    def take(self, item: Appended) -> list[StoredEvent] | None:
        """The events as they will stand; None where they are not of the attempt that runs."""
        if item.attempt != self._attempt or self._verdict is not None:
            return None
        return [self._place(event) for event in item.events]

    def write(self, statements: StreamStatements) -> None:
        """Write what was taken, and end the attempt where that was its verdict."""
        if not self._rows:
            return
        cursor = self._transaction.cursor
        statements.insert.execute(cursor, self._rows)
        statements.counter.execute(cursor, [self._last_id, self._length])
        if self._moved:
            self._write_attempt(statements)

    def _place(self, event: NewEvent) -> StoredEvent:
        if self._verdict is not None:
            raise ValueError("nothing follows a verdict")
        self._last_id += 1
        body = _body(self._last_id, self._attempt, event, self._at)
        self._rows += (self._last_id, self._attempt, event.type, self._length, body.decode())
        self._length += len(body)
        if event.type != "log":
            self._move(event)
        return StoredEvent(self._last_id, event.type, body)

    def _move(self, event: NewEvent) -> None:
        self._moved = True
        if event.type == "verdict":
            if event.outcome is None:
                raise ValueError("a verdict has an outcome")
            self._verdict = event
            return
        step = self._steps.get(event.step or "")
        if step is None:
            raise ValueError("the attempt has no such step")
        self._steps[step.name] = _moved(step, event.status, self._transaction.now)

    def _write_attempt(self, statements: StreamStatements) -> None:
        end = ("running", None, None, None) if self._verdict is None else self._end(self._verdict)
        steps = write_steps(self._steps.values())
        self._transaction.cursor.execute(statements.update, [*end, steps, self._attempt])

    def _end(self, verdict: NewEvent) -> tuple[object, ...]:
        """State, end, detail and verdict id of the attempt after its last event; the audit tells of it too."""
        state, detail = str(verdict.outcome), verdict.detail and _clean(verdict.detail)
        told: dict[str, object] = {"detail": detail and detail[:_TOLD], "lastEventId": self._last_id}
        self._transaction.record(f"install.{state}", str(self._attempt), told)
        stored = None if detail is None else orjson.dumps(detail).decode()
        return (state, self._transaction.now, stored, self._last_id)


def _moved(step: StepRecord, status: EventStatus | None, now: int) -> StepRecord:
    if status == "started":
        return replace(step, status="running", started_at=now, ended_at=None)
    if status is None:
        raise ValueError("the event of a step has a status")
    return replace(step, status=status, ended_at=now)


def _body(event_id: int, attempt: int, event: NewEvent, at: str) -> bytes:
    kind, *others = event
    try:
        body = _encode(_InstallEvent(event_id, attempt, kind, at, *others))
    except UnicodeEncodeError:
        cleaned = (other if other is None else _clean(other) for other in others)
        body = _encode(_InstallEvent(event_id, attempt, kind, at, *cleaned))
    return body if body.isascii() else _LINE_ENDS.sub(lambda found: _ESCAPED[found[0]], body)


def _clean(text: str) -> str:
    """The text with U+FFFD for every lone surrogate, which UTF-8 cannot hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _rfc3339(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{milliseconds % 1000:03d}Z"
