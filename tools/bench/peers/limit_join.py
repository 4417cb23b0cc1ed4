"""The reports of a join at the limit of one process: bare ASGI, the fastest checks, one thread that commits for all.

The tables are Gatehouse's own, and the log lines of a commit are one row of JSON text as there. BENCH_DATABASE names
the file, BENCH_JOIN and BENCH_PIN the join and its key; the join is in its turn from the start.
"""

import asyncio
import gc
import os
import random
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, TypeAlias, cast
from uuid import UUID

import msgspec
import orjson

from handlers.gateway import strict_json
from handlers.gateway.times import epoch_milliseconds_of_each
from tools.bench.peers.client_certificate import pin
from tools.bench.peers.join_table import PLAN, create_database
from tools.bench.peers.limit_writer import Writer

BODY_LIMIT: Final = 4 * 1_048_576
LINES_KEPT: Final = 2_000
KEYS_KEPT: Final = 16
KEY: Final = re.compile(rb"[!-~]{1,64}")
PREFIX: Final = "/v1/join/registrations/"
SUFFIX: Final = "/events"
PINS: Final = {os.environ["BENCH_JOIN"]: os.environ["BENCH_PIN"]}
DATABASE: Final = os.environ["BENCH_DATABASE"]
KNOWN_STEPS: Final = {None, *PLAN}

STATE: Final = "SELECT state, last_seq, recent_keys FROM joins WHERE join_id = ?"
STEPS: Final = "SELECT step, status FROM join_steps WHERE join_id = ?"
STEP: Final = (
    "UPDATE join_steps SET status = ?1, message = ?2, started_at = coalesce(started_at, ?3),"
    " ended_at = iif(?1 = 'running', NULL, ?3) WHERE join_id = ?4 AND step = ?5"
)
FAIL: Final = "UPDATE joins SET state = 'failed', in_turn = 0, ended_at = ? WHERE join_id = ?"
LINES: Final = "INSERT INTO join_lines (join_id, last_seq, lines) VALUES (?, ?, ?)"
FORGET: Final = "DELETE FROM join_lines WHERE join_id = ? AND last_seq <= ?"
PROGRESS: Final = "UPDATE joins SET beats = beats + ?, last_seq = ?, recent_keys = ? WHERE join_id = ?"
ONWARD: Final[dict[str, tuple[str, ...]]] = {"waiting": ("running", "done", "failed"), "running": ("done", "failed")}

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
Status: TypeAlias = Literal["running", "done", "failed"]


class Problem(Exception):
    """A refusal with its code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


# The defaults are not validated: absent is allowed, null is not. Members stand in the document's order, in which most
# who send them keep to it.
class Step(msgspec.Struct, tag_field="type", tag="step", kw_only=True, omit_defaults=True, gc=False):
    step: str
    status: Status
    message: str = cast(str, None)
    at: str = cast(str, None)


class Line(msgspec.Struct, tag_field="type", tag="log", kw_only=True, omit_defaults=True, gc=False):
    step: str = cast(str, None)
    status: Status = cast(Status, None)
    message: str
    at: str = cast(str, None)


class Events(msgspec.Struct):
    events: Annotated[list[Step | Line], msgspec.Meta(max_length=500)]


DECODER: Final = msgspec.json.Decoder(Events)


@dataclass(slots=True)
class Report:
    """A report whose lines are JSON text already, without the brackets of their list."""

    join_id: str
    steps: list[tuple[Step, int]]
    lines: bytes
    count: int
    key: str | None
    digest: str


def read(join_id: str, body: bytes, key: str | None) -> Report:
    """The report of a body; raises Problem."""
    events = parse(body)
    if not {event.step for event in events} <= KNOWN_STEPS:
        raise Problem(400, "INVALID_INPUT")
    now = time.time_ns() // 1_000_000
    times = epoch_milliseconds_of_each([event.at for event in events if event.at is not None])
    if None in times:
        raise Problem(400, "INVALID_INPUT")
    given = iter(cast(list[int], times))
    timed = [(event, now if event.at is None else next(given)) for event in events]
    steps = [(event, at) for event, at in timed if type(event) is Step]
    lines = [(at, event.step, event.message) for event, at in timed if type(event) is Line]
    digest = "" if key is None else sha256(body).hexdigest()
    return Report(join_id, steps, orjson.dumps(lines)[1:-1], len(lines), key, digest)


def parse(body: bytes) -> list[Step | Line]:
    """The events of a body, at once where it has no member that is unknown or repeated; raises Problem."""
    found = strict_json.loads_as(DECODER, body)
    if found is None:
        try:
            found = msgspec.convert(strict_json.loads(body), Events)
        except (strict_json.NotStrictJson, msgspec.ValidationError):
            raise Problem(400, "INVALID_INPUT") from None
    return found.events


@dataclass(slots=True)
class Join:
    """A join as the reports of one commit find it, and what they make of it."""

    state: str
    last_seq: int
    keys: dict[str, str]
    beats: int = 0
    taken: list[Report] = field(default_factory=list)


def record(connection: sqlite3.Connection, reports: list[Report]) -> list[Problem | None]:
    """Decide and store reports in their order, inside the open transaction."""
    joins: dict[str, Join] = {}
    outcomes: list[Problem | None] = []
    for report in reports:
        join = joins.get(report.join_id)
        if join is None:
            state, last_seq, keys = connection.execute(STATE, (UUID(report.join_id).hex,)).fetchone()
            join = joins[report.join_id] = Join(state, last_seq, dict(orjson.loads(keys)))
        outcomes.append(decide(connection, join, report))
    for join_id, join in joins.items():
        if join.beats:
            store(connection, UUID(join_id).hex, join)
    return outcomes


def decide(connection: sqlite3.Connection, join: Join, report: Report) -> Problem | None:
    """Take one report, or say why not: its key, the turn, its steps."""
    known = join.keys.get(report.key) if report.key else None
    if known is not None:
        join.beats += known == report.digest and join.state == "joining"
        return None if known == report.digest else Problem(409, "IDEMPOTENCY_KEY_REUSED")
    if join.state != "joining":
        return Problem(409, "JOIN_NOT_IN_TURN" if join.state in ("pending", "approved") else "JOIN_ENDED")
    if report.steps:
        problem, failed = take_steps(connection, report)
        if problem is not None:
            return problem
        if failed:
            join.state = "failed"
    join.beats += 1
    join.taken.append(report)
    if report.key is not None:
        join.keys[report.key] = report.digest
        if len(join.keys) > KEYS_KEPT:
            del join.keys[next(iter(join.keys))]
    return None


def take_steps(connection: sqlite3.Connection, report: Report) -> tuple[Problem | None, bool]:
    """Let the steps go where a report says, or none of them; and whether the join has failed by it."""
    join_id = UUID(report.join_id).hex
    status = dict(connection.execute(STEPS, (join_id,)).fetchall())
    rows = []
    for event, at in report.steps:
        if event.status in ONWARD.get(status[event.step], ()):
            status[event.step] = event.status
            message = None if event.message is None else orjson.dumps(event.message).decode()
            rows.append((event.status, message, at, join_id, event.step))
        elif event.status != status[event.step]:
            return Problem(409, "JOIN_STEP_ORDER"), False
    connection.executemany(STEP, rows)
    failed = "failed" in status.values()
    if failed:
        connection.execute(FAIL, (time.time_ns() // 1_000_000, join_id))
    return None, failed


def store(connection: sqlite3.Connection, join_id: str, join: Join) -> None:
    """Store the newest lines of a join's reports as one row, and drop the rows that hold none of the newest."""
    last_seq = join.last_seq + sum(report.count for report in join.taken)
    newest: list[bytes] = []
    kept = 0
    for report in reversed(join.taken):
        if kept >= LINES_KEPT:
            break
        if report.count:
            newest.append(report.lines)
            kept += report.count
    if newest:
        connection.execute(LINES, (join_id, last_seq, (b"[%b]" % b",".join(reversed(newest))).decode()))
        connection.execute(FORGET, (join_id, last_seq - LINES_KEPT))
    keys = orjson.dumps(list(join.keys.items())).decode()
    connection.execute(PROGRESS, (join.beats, last_seq, keys, join_id))


def request_id() -> bytes:
    """32 hex digits at random."""
    return b"%032x" % random.getrandbits(128)


class Application:
    """The ASGI application; its writer begins with the lifespan."""

    writer: Writer[Report, Problem | None]

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, or follow the lifespan."""
        if scope["type"] == "lifespan":
            await self.live(receive, send)
            return
        problem = await self.answer(scope, receive)
        headers = [(b"x-request-id", request_id())]
        if problem is None:
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body"})
            return
        body = orjson.dumps({"code": problem.code, "status": problem.status, "requestId": headers[0][1].decode()})
        headers += [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def live(self, receive: Receive, send: Send) -> None:
        """Make the database, start the writer, and wait for the end."""
        await receive()
        create_database()
        self.writer = Writer(asyncio.get_running_loop(), DATABASE, record)
        self.writer.start()
        # The collector need not look through what is there for good, nor at every seven hundredth event.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def answer(self, scope: dict[str, Any], receive: Receive) -> Problem | None:
        """Record one report; the problem where that cannot be."""
        path = scope["path"]
        if not (path.startswith(PREFIX) and path.endswith(SUFFIX)):
            return Problem(404, "NOT_FOUND")
        if scope["method"] != "POST":
            return Problem(405, "METHOD_NOT_ALLOWED")
        join_id = path[len(PREFIX) : -len(SUFFIX)].lower()
        known = PINS.get(join_id)
        if known is None or pin(scope) != known:
            return Problem(404, "NOT_FOUND")
        try:
            body = await whole_body(scope, receive)
            return await self.writer.submit(read(join_id, body, idempotency_key(scope)))
        except Problem as problem:
            return problem


async def whole_body(scope: dict[str, Any], receive: Receive) -> bytes:
    """The body, within its limit and of its media type; raises Problem."""
    chunks = []
    size, more = 0, True
    while more:
        message = await receive()
        chunks.append(message["body"])
        size += len(chunks[-1])
        more = message["more_body"]
        if size > BODY_LIMIT:
            raise Problem(413, "BODY_TOO_LARGE")
    media: bytes | None = None
    for name, value in scope["headers"]:
        if name == b"content-type":
            if media is not None:
                raise Problem(415, "UNSUPPORTED_MEDIA_TYPE")
            media = value
        elif name == b"content-encoding" and value.lower() != b"identity":
            raise Problem(415, "UNSUPPORTED_MEDIA_TYPE")
    if media is None or media.partition(b";")[0].strip().lower() != b"application/json":
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE")
    return b"".join(chunks)


def idempotency_key(scope: dict[str, Any]) -> str | None:
    """The key of the report, None without one; raises Problem."""
    values = [value for name, value in scope["headers"] if name == b"idempotency-key"]
    if not values:
        return None
    if len(values) > 1 or KEY.fullmatch(values[0]) is None:
        raise Problem(400, "INVALID_INPUT")
    key: bytes = values[0]
    return key.decode()


app = Application()
