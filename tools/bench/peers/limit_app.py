"""The admission of events at the limit of one process: bare ASGI, the fastest checks, one thread that commits for all.

The tables are Gatehouse's own, so that both write the same rows. BENCH_DATABASE and BENCH_KEY name the files it needs.
"""

import asyncio
import json
import os
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson
from sqlalchemy import create_engine

from storage.tables import METADATA
from tools.bench.peers.limit_checks import PATH, Candidate, Key, Problem, candidate
from tools.bench.peers.limit_writer import Writer

BODY_LIMIT: Final = 1_048_576
DEADLINE_MS: Final = 86_400_000
NODE: Final = "local"
PACKAGE_DIGEST: Final = f"sha256:{'a' * 64}"
DEFINITION_DIGEST: Final = f"sha256:{'d' * 64}"
BINDING_DIGEST: Final = f"sha256:{'b' * 64}"
KEY: Final = Key(Path(os.environ["BENCH_KEY"]).read_bytes())
DATABASE: Final = os.environ["BENCH_DATABASE"]

STATE: Final = "SELECT admission_held, execution_held, package_digest IS NULL FROM switches"
HEAD: Final = "SELECT seq, hash FROM audit_heads WHERE node = ?"
LIVE: Final = "SELECT 1 FROM runs WHERE workflow_id = ? AND ended_at IS NULL"
# Two ranges of the index over live runs, where <> would read every one of them.
LIVE_CONFLICT: Final = f"SELECT EXISTS({LIVE} AND binding_digest < ?) OR EXISTS({LIVE} AND binding_digest > ?)"
# CROSS JOIN: what is looked for comes first, so that the index finds it.
WANTED: Final = (
    "json_each(?) AS w CROSS JOIN admissions AS a"
    " WHERE a.workflow = w.value ->> 0 AND a.trigger = w.value ->> 1 AND a.source = w.value ->> 2"
)
KNOWN: Final = f"SELECT w.key, a.event_digest, a.run_id FROM {WANTED} AND a.event_id = w.value ->> 3"  # noqa: S608 - constants only
KEY_HOLDERS: Final = f"SELECT w.key FROM {WANTED} AND a.idempotency_key = w.value ->> 4"  # noqa: S608 - constants only
ADMISSION: Final = (
    "INSERT INTO admissions (workflow, trigger, source, event_id, event_digest, idempotency_key, run_id)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
RUN: Final = (
    "INSERT INTO runs (run_id, workflow_id, workflow_version, definition_digest, binding_digest, step, state, input,"
    " admitted_at, deadline_at, uncertain, cancel_requested, restore_review_required)"
    " VALUES (?, ?, '1', ?, ?, 'start', 'admitted', ?, ?, ?, 0, 0, 0)"
)
OUTBOX: Final = "INSERT INTO outbox (run_id, kind, created_at) VALUES (?, 'run.admitted', ?)"
AUDIT: Final = (
    "INSERT INTO audit (node, seq, prev_hash, at, action, subject, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
NEW_HEAD: Final = "UPDATE audit_heads SET seq = ?, hash = ? WHERE node = ?"

Outcome: TypeAlias = str | Problem
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]


def admit(connection: sqlite3.Connection, batch: list[Candidate]) -> list[Outcome]:
    """Decide and store a batch inside the open transaction, in few statements."""
    wanted = orjson.dumps(
        [(each.workflow, each.trigger, each.source, each.event_id, each.idempotency_key) for each in batch]
    ).decode()
    known = {index: (digest, run) for index, digest, run in connection.execute(KNOWN, (wanted,))}
    taken = {index for (index,) in connection.execute(KEY_HOLDERS, (wanted,))}
    refusal = state_refusal(connection, batch[0].workflow)
    now = time.time_ns() // 1_000_000
    seen: dict[tuple[str, ...], tuple[str, str]] = {}
    keys: set[tuple[str, ...]] = set()
    new: list[tuple[Candidate, str]] = []
    outcomes: list[Outcome] = []
    for index, each in enumerate(batch):
        scope = (each.workflow, each.trigger, each.source)
        found = known.get(index) or seen.get((*scope, each.event_id))
        if found is not None:
            outcomes.append(found[1] if found[0] == each.digest else Problem(409, "idempotency.key-reused"))
        elif index in taken or (*scope, each.idempotency_key) in keys:
            outcomes.append(Problem(409, "idempotency.key-reused"))
        elif fault := each.fault or refusal:
            outcomes.append(fault)
        else:
            run_id = new_run_id(now)
            seen[(*scope, each.event_id)] = each.digest, run_id
            keys.add((*scope, each.idempotency_key))
            new.append((each, run_id))
            outcomes.append(run_id)
    if new:
        store(connection, new, now)
    return outcomes


def state_refusal(connection: sqlite3.Connection, workflow: str) -> Problem | None:
    """What refuses every new identity: a hold, or a live run that is pinned to another binding."""
    admission_held, execution_held, undeployed = connection.execute(STATE).fetchone()
    if admission_held:
        return Problem(409, "admission.held")
    if execution_held:
        return Problem(409, "execution.held")
    if undeployed:
        return Problem(409, "deployment.refused")
    if connection.execute(LIVE_CONFLICT, (workflow, BINDING_DIGEST) * 2).fetchone()[0]:
        return Problem(409, "binding.live-conflict")
    return None


def store(connection: sqlite3.Connection, new: list[tuple[Candidate, str]], now: int) -> None:
    """Insert the four rows of each new run, and the new head of the audit chain."""
    connection.executemany(
        RUN,
        [
            (run_id, each.workflow, DEFINITION_DIGEST, BINDING_DIGEST, each.input, now, now + DEADLINE_MS)
            for each, run_id in new
        ],
    )
    connection.executemany(
        ADMISSION,
        [
            (each.workflow, each.trigger, each.source, each.event_id, each.digest, each.idempotency_key, run_id)
            for each, run_id in new
        ],
    )
    connection.executemany(OUTBOX, [(run_id, now) for _, run_id in new])
    seq, last = connection.execute(HEAD, (NODE,)).fetchone()
    rows = []
    for each, run_id in new:
        row = {
            "node": NODE,
            "seq": (seq := seq + 1),
            "prev_hash": last,
            "at": now,
            "action": "run.admitted",
            "subject": run_id,
            "body": f'{{"eventDigest":"{each.digest}","workflow":"{each.workflow}"}}',
        }
        last = sha256(orjson.dumps(row, option=orjson.OPT_SORT_KEYS)).hexdigest()
        rows.append((*row.values(), last))
    connection.executemany(AUDIT, rows)
    connection.execute(NEW_HEAD, (seq, last, NODE))


def new_run_id(now: int) -> str:
    """A version 7 UUID for a time in milliseconds (RFC 9562, section 5.7), as 32 hex digits."""
    # Not from the system: os.urandom lets go of the interpreter and waits to have it back.
    return f"{now:012x}7{random.getrandbits(12):03x}{0x8000000000000000 | random.getrandbits(62):016x}"


def request_id() -> str:
    """32 hex digits at random."""
    return f"{random.getrandbits(128):032x}"


class Application:
    """The ASGI application; its writer begins with the lifespan."""

    writer: Writer[Candidate, Outcome]

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, or follow the lifespan."""
        if scope["type"] == "lifespan":
            await self.live(receive, send)
            return
        try:
            run_id = await self.answer(scope, receive)
        except Problem as problem:
            await send_problem(send, problem)
            return
        await send({"type": "http.response.start", "status": 204, "headers": success_headers(run_id)})
        await send({"type": "http.response.body"})

    async def live(self, receive: Receive, send: Send) -> None:
        """Make the database, start the writer, and wait for the end."""
        await receive()
        create_database()
        self.writer = Writer(asyncio.get_running_loop(), DATABASE, admit)
        self.writer.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def answer(self, scope: dict[str, Any], receive: Receive) -> str:
        """The run's id; raises Problem."""
        if not scope["path"].startswith(PATH) or scope["path"].count("/") != 4:
            raise Problem(404, "request.not-found")
        if scope["method"] != "POST":
            raise Problem(405, "request.method-not-allowed")
        outcome = await self.writer.submit(candidate(scope, await whole_body(receive), KEY))
        if isinstance(outcome, Problem):
            raise outcome
        return outcome


async def whole_body(receive: Receive) -> bytes:
    """The body, within its limit; raises Problem."""
    message = await receive()
    body: bytes = message["body"]
    while message["more_body"] and len(body) <= BODY_LIMIT:
        message = await receive()
        body += message["body"]
    if len(body) > BODY_LIMIT:
        raise Problem(413, "request.body-too-large")
    return body


def success_headers(run: str) -> list[tuple[bytes, bytes]]:
    """The header fields of a 204."""
    run_id = f"{run[:8]}-{run[8:12]}-{run[12:16]}-{run[16:20]}-{run[20:]}"
    return [(b"x-coordinator-run-id", run_id.encode()), (b"x-request-id", request_id().encode())]


async def send_problem(send: Send, problem: Problem) -> None:
    """A refusal as problem+json."""
    body = json.dumps({"code": problem.code, "status": problem.status, "traceId": request_id()}).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def create_database() -> None:
    """Make the tables and the rows that an empty database starts with."""
    engine = create_engine(f"sqlite:///{DATABASE}")
    METADATA.create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO packages VALUES (?, '{}', 0)", (PACKAGE_DIGEST,))
        connection.exec_driver_sql("INSERT INTO switches VALUES (1, 0, 0, ?)", (PACKAGE_DIGEST,))
        connection.exec_driver_sql("INSERT INTO audit_heads VALUES (?, 0, ?, 0)", (NODE, "0" * 64))
    engine.dispose()


app = Application()
