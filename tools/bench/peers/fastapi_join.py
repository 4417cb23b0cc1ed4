"""The reports of a join as an experienced user writes them on FastAPI, pydantic and SQLModel.

The join and its steps are Gatehouse's own tables; each log line is a row of its own, which is what SQLModel is for.
They are inserted in one statement, and what is not among the newest is deleted by number. BENCH_DATABASE names the
file, BENCH_JOIN and BENCH_PIN the join and its key; the join is in its turn from the start.
"""

import hashlib
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal, cast
from uuid import UUID

import sqlalchemy as sa
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from sqlmodel import Field as Column
from sqlmodel import Session, SQLModel, col, delete, insert, select

from handlers.gateway import strict_json
from handlers.gateway.times import epoch_milliseconds
from storage.tables import JoinRow, JoinStepRow
from tools.bench.peers.client_certificate import pin
from tools.bench.peers.fastapi_database import durable_engine
from tools.bench.peers.join_table import JOIN, PIN, PLAN, create_database

BODY_LIMIT: Final = 4 * 1_048_576
LINES_KEPT: Final = 2_000
KEYS_KEPT: Final = 16
KEY: Final = re.compile("[!-~]{1,64}")
ONWARD: Final[Mapping[str, Sequence[str]]] = {"waiting": ("running", "done", "failed"), "running": ("done", "failed")}

Status = Literal["running", "done", "failed"]


class LogLineRow(SQLModel, table=True):
    """A log line at its place."""

    __tablename__ = "log_lines"

    join_id: UUID = Column(sa_column=sa.Column(sa.Uuid(), primary_key=True))
    seq: int = Column(sa_column=sa.Column(sa.BigInteger(), primary_key=True, autoincrement=False))
    at: int
    step: str | None
    message: str


class Problem(Exception):
    """A refusal with its code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


# The defaults are not validated: absent is allowed, null is not.
class StepEvent(BaseModel):
    type: Literal["step"]
    step: str
    status: Status
    message: str = cast(str, None)
    at: str = cast(str, None)


class LogEvent(BaseModel):
    type: Literal["log"]
    message: str
    step: str = cast(str, None)
    status: Status = "running"
    at: str = cast(str, None)


class JoinReport(BaseModel):
    events: list[Annotated[StepEvent | LogEvent, Field(discriminator="type")]] = Field(max_length=500)


engine = durable_engine()


async def reported(request: Request, join_id: str) -> bytes:
    """The body of the node's own report, within its limit; nothing of it has been parsed."""
    # The key of a join never changes, so the database need not be asked.
    if join_id.lower() != str(JOIN) or pin(request.scope) != PIN:
        raise Problem(404, "NOT_FOUND")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_LIMIT:
            raise Problem(413, "BODY_TOO_LARGE")
    media = request.headers.getlist("content-type")
    if len(media) != 1 or media[0].partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE")
    if any(value.lower() != "identity" for value in request.headers.getlist("content-encoding")):
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE")
    return bytes(body)


def idempotency_key(request: Request) -> str | None:
    """The key of the report, None without one; raises Problem."""
    values = request.headers.getlist("idempotency-key")
    if len(values) > 1 or (values and KEY.fullmatch(values[0]) is None):
        raise Problem(400, "INVALID_INPUT")
    return values[0] if values else None


def read(body: bytes, now: int) -> tuple[list[tuple[StepEvent, int]], list[dict[str, Any]]]:
    """The step events with their times, and the log lines as rows without a number; raises Problem."""
    try:
        events = JoinReport.model_validate(strict_json.loads(body)).events
    except (strict_json.NotStrictJson, ValidationError):
        raise Problem(400, "INVALID_INPUT") from None
    steps: list[tuple[StepEvent, int]] = []
    lines: list[dict[str, Any]] = []
    for event in events:
        at = now if event.at is None else epoch_milliseconds(event.at)
        if at is None or (event.step is not None and event.step not in PLAN):
            raise Problem(400, "INVALID_INPUT")
        if isinstance(event, StepEvent):
            steps.append((event, at))
        else:
            lines.append({"join_id": JOIN, "at": at, "step": event.step, "message": event.message})
    return steps, lines


def record(
    steps: list[tuple[StepEvent, int]], lines: list[dict[str, Any]], now: int, key: str | None, digest: str
) -> None:
    """Record a report as a whole, unless its key stands for it already; raises Problem."""
    with Session(engine, expire_on_commit=False) as session, session.begin():
        join = session.get_one(JoinRow, JOIN)
        keys: dict[str, str] = dict(json.loads(join.recent_keys))
        if key is not None and key in keys:
            if keys[key] != digest:
                raise Problem(409, "IDEMPOTENCY_KEY_REUSED")
            join.beats += join.state == "joining"
            return
        if join.state != "joining":
            raise Problem(409, "JOIN_NOT_IN_TURN" if join.state in ("pending", "approved") else "JOIN_ENDED")
        if steps:
            take_steps(session, join, steps, now)
        if lines:
            for seq, line in enumerate(lines, join.last_seq + 1):
                line["seq"] = seq
            join.last_seq += len(lines)
            # Else a row without a step would be an INSERT of another shape, and each of them a statement.
            session.execute(insert(LogLineRow).execution_options(render_nulls=True), lines)
            old = col(LogLineRow.seq) <= join.last_seq - LINES_KEPT
            session.execute(delete(LogLineRow).where(col(LogLineRow.join_id) == JOIN, old))
        if key is not None:
            join.recent_keys = json.dumps([*keys.items(), (key, digest)][-KEYS_KEPT:])
        join.beats += 1


def take_steps(session: Session, join: JoinRow, events: list[tuple[StepEvent, int]], now: int) -> None:
    """Let the steps go where a report says; raises Problem where one may not."""
    steps = {row.step: row for row in session.exec(select(JoinStepRow).where(JoinStepRow.join_id == JOIN))}
    for event, at in events:
        row = steps[event.step]
        if event.status in ONWARD.get(row.status, ()):
            row.status = event.status
            row.message = None if event.message is None else json.dumps(event.message)
            row.started_at = at if row.started_at is None else row.started_at
            row.ended_at = None if event.status == "running" else at
        elif event.status != row.status:
            raise Problem(409, "JOIN_STEP_ORDER")
        if event.status == "failed":
            join.state, join.in_turn, join.ended_at = "failed", False, now


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Make the tables and the join."""
    create_database()
    yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(Problem)
async def answer_problem(_: Request, problem: Problem) -> JSONResponse:
    """A refusal as problem+json."""
    content = {"code": problem.code, "status": problem.status, "requestId": secrets.token_hex(16)}
    return JSONResponse(content, problem.status, media_type="application/problem+json")


@app.exception_handler(404)
async def answer_path(request: Request, _: Exception) -> JSONResponse:
    """Another path."""
    return await answer_problem(request, Problem(404, "NOT_FOUND"))


@app.exception_handler(405)
async def answer_method(request: Request, _: Exception) -> JSONResponse:
    """Another method on the path."""
    return await answer_problem(request, Problem(405, "METHOD_NOT_ALLOWED"))


@app.post("/v1/join/registrations/{join_id}/events", status_code=204)
def report_join_events(
    body: Annotated[bytes, Depends(reported)], key: Annotated[str | None, Depends(idempotency_key)]
) -> Response:
    """Record one report; a sync function, so that FastAPI runs it in its thread pool."""
    now = time.time_ns() // 1_000_000
    record(*read(body, now), now, key, hashlib.sha256(body).hexdigest() if key else "")
    return Response(status_code=204, headers={"X-Request-Id": secrets.token_hex(16)})
