"""What would take long to come about, written straight into a state folder while no server runs on it."""

import asyncio
import os
import sqlite3
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Final, NamedTuple

import orjson

from storage.chain import Entry, Head, link
from storage.database import Storage
from storage.identifiers import RunIds, hyphenated
from storage.installer.config import StoredConfig
from storage.installer.events import NewEvent
from tools.bench.install import CONFIG
from tools.bench.reports import line
from tools.bench.servers import Program
from tools.state import StateFolder

# So many of the last runs are live; the others have ended.
LIVE: Final = 5_000
MILLISECONDS_BETWEEN_RUNS: Final = 50
RUN_MILLISECONDS: Final = 1_000

STEP: Final = "write"
# Beside its lines an install has a step's begin and end, and a verdict.
OTHER_EVENTS: Final = 3

_CHUNK: Final = 10_000
_EVENTS_AT_ONCE: Final = 500
# A log or a flush to the disk would only make the filling slower; a cache that holds both indexes on random keys keeps
# it from reading and writing their pages again and again.
_FILLING: Final = ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "cache_size=-1500000")

_RUN: Final = (
    "INSERT INTO runs (run_id, input, state, output, outcome, admitted_at, deadline_at, ended_at, workflow_id,"
    " workflow_version, definition_digest, binding_digest, step, uncertain, cancel_requested, restore_review_required)"
    " SELECT ?, ?, ?, ?, ?, ?, ?, ?, workflow_id, workflow_version, definition_digest, binding_digest, step,"
    " FALSE, FALSE, FALSE FROM temp.model_run"
)
_ADMISSION: Final = (
    "INSERT INTO admissions (event_id, idempotency_key, event_digest, run_id, workflow, trigger, source)"
    " SELECT ?, ?, ?, ?, workflow, trigger, source FROM temp.model_admission"
)
_AUDIT: Final = (
    "INSERT INTO audit (node, seq, prev_hash, hash, at, action, subject, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_OUTBOX: Final = "INSERT INTO outbox (run_id, kind, created_at) VALUES (?, 'admitted', ?)"


class _Born(NamedTuple):
    """A run that was admitted, with what is random in it; times are epoch milliseconds."""

    run_id: str
    event_id: str
    key: str
    digest: str
    admitted_at: int
    live: bool

    @property
    def run(self) -> tuple[object, ...]:
        state, output, outcome = ("admitted", None, None) if self.live else ("completed", "{}", "told")
        ended_at = None if self.live else self.admitted_at + RUN_MILLISECONDS
        entry = f'{{"caseId":"case-{hyphenated(self.event_id)}"}}'
        deadline = self.admitted_at + 86_400_000
        return self.run_id, entry, state, output, outcome, self.admitted_at, deadline, ended_at

    @property
    def admission(self) -> tuple[object, ...]:
        return self.event_id, self.key, self.digest, self.run_id


def fill_runs(program: Program, total: int) -> None:
    """Let a folder have `total` runs, made like the first one that its server has admitted, which has to be there.

    Identities, keys and digests are random, run ids rise with time, the audit chain and its file go on. What a run
    leaves beside its admission (steps, calls, later lines of the audit) is not made: admission reads none of it.
    """
    state = StateFolder(program.folder)
    with closing(sqlite3.connect(state.database, isolation_level=None)) as connection, state.audit_file.open("ab") as f:
        for setting in _FILLING:
            connection.execute(f"PRAGMA {setting}")
        for kind in ("run", "admission"):
            connection.execute(f"CREATE TEMP TABLE model_{kind} AS SELECT * FROM {kind}s LIMIT 1")  # noqa: S608 - both are here
        [[stored]] = connection.execute("SELECT count(*) FROM runs")
        born = _births(total - stored)
        connection.execute("BEGIN")
        chain = _Chain(connection)
        while chunk := list(islice(born, _CHUNK)):
            connection.executemany(_RUN, [each.run for each in chunk])
            connection.executemany(_ADMISSION, [each.admission for each in chunk])
            connection.executemany(_OUTBOX, [(each.run_id, each.admitted_at) for each in chunk if each.live])
            f.write(chain.add(chunk))
        chain.end()
        connection.execute("COMMIT")
        # What is still to be written to the disk would be so during the rounds.
        os.fsync(f.fileno())
    with state.database.open("rb") as database:
        os.fsync(database.fileno())


def _births(count: int) -> Iterator[_Born]:
    ids = RunIds()
    now = time.time_ns() // 1_000_000 - count * MILLISECONDS_BETWEEN_RUNS
    for place in range(count):
        now += MILLISECONDS_BETWEEN_RUNS
        event_id, key, digest = (part.hex() for part in struct.unpack("16s32s32s", os.urandom(80)))
        yield _Born(ids.take(now), event_id, f"sha256:{key}", f"sha256:{digest}", now, place >= count - LIVE)


class _Chain:
    """The audit chain as it goes on from where it ends in the table."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._node, *head = connection.execute("SELECT node, seq, hash, length FROM audit_heads").fetchone()
        self._head = Head(*head)
        query = "SELECT body FROM audit WHERE action = 'run.admitted' LIMIT 1"
        self._body = orjson.loads(connection.execute(query).fetchone()[0])

    def add(self, births: Sequence[_Born]) -> bytes:
        """Store a row for each admission; return their lines."""
        seq, previous, length = self._head
        rows, lines = [], []
        for born in births:
            seq += 1
            told = self._body | {"eventDigest": born.digest, "eventId": born.event_id}
            body = orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()
            entry = Entry(born.admitted_at, "run.admitted", hyphenated(born.run_id), body)
            digest, text = link(self._node, seq, previous, entry)
            rows.append((self._node, seq, previous, digest, entry.at, entry.action, entry.subject, body))
            lines.append(text)
            previous, length = digest, length + len(text)
        self._connection.executemany(_AUDIT, rows)
        self._head = Head(seq, previous, length)
        return b"".join(lines)

    def end(self) -> None:
        """Store where the chain ends."""
        self._connection.execute("UPDATE audit_heads SET seq = ?, hash = ?, length = ?", self._head)


def fill_events(program: Program, total: int) -> None:
    """Let a folder have one install with `total` events, which has succeeded; they come by the storage's own door."""
    asyncio.run(_install(StateFolder(program.folder), total))


async def _install(state: StateFolder, total: int) -> None:
    storage = await Storage.open(f"sqlite:///{state.database}", node="local", audit_file=state.audit_file)
    try:
        text = orjson.dumps(CONFIG).decode()
        await storage.installer.config.put(StoredConfig(media_type="application/json", text=text, value=text))
        await storage.installer.attempts.start([STEP])
        for events in _chunks(total):
            await storage.installer.events.append(1, events)
    finally:
        await storage.close()


def _chunks(total: int) -> Iterator[list[NewEvent]]:
    yield [NewEvent("step", step=STEP, status="started")]
    lines = (NewEvent("log", step=STEP, line=line(number)["message"]) for number in range(total - OTHER_EVENTS))
    while chunk := list(islice(lines, _EVENTS_AT_ONCE)):
        yield chunk
    yield [NewEvent("step", step=STEP, status="succeeded"), NewEvent("verdict", outcome="succeeded")]
