"""The install stream as an experienced user writes it on FastAPI, sse-starlette, pydantic and SQLModel.

Each event is a row with a column for each member. History is read in pages by each reader for itself; what is committed
is encoded once, and handed to all readers that have no history to read. A page, and what came in one commit, is sent as
a whole. BENCH_DATABASE names the file, BENCH_CODE and BENCH_PLAN those of the code and the plan, BENCH_COMMENT_SECONDS
is the time between two pings.
"""

import asyncio
import os
import secrets
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from sqlalchemy.event import listens_for
from sqlmodel import Field, Session, SQLModel, col, create_engine, func, insert, select
from sse_starlette import EventSourceResponse, ServerSentEvent

from storage.installer.events import NewEvent
from tools.bench.peers import install_job

PAGE_EVENTS: Final = 256
# A reader that has so many commits to send goes back to reading history.
MOST_WAITING: Final = 256
COMMENT_SECONDS: Final = float(os.environ["BENCH_COMMENT_SECONDS"])
OPENING: Final = b": gatehouse\n\nretry: 2000\n\n"


class Problem(Exception):
    """A refusal with its code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


class InstallAttempt(SQLModel, table=True):
    """An attempt; `state` is running, succeeded or failed."""

    __tablename__ = "installs"

    attempt: int = Field(primary_key=True)
    state: str


class EventRow(SQLModel, table=True):
    """An event in its place; what does not apply to it is None."""

    __tablename__ = "events"

    id: int = Field(primary_key=True)
    attempt: int
    type: str
    at: str
    step: str | None
    status: str | None
    line: str | None
    outcome: str | None
    detail: str | None


class InstallEvent(BaseModel):
    """An event as it is sent: members in this order, which those of a row have not, and none that does not apply."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    attempt: int
    type: str
    at: str
    step: str | None
    status: str | None
    line: str | None
    outcome: str | None
    detail: str | None

    def frame(self) -> bytes:
        """The event as server-sent."""
        data = self.model_dump_json(exclude_none=True)
        return ServerSentEvent(data, id=str(self.id), event=self.type, sep="\n").encode()


class Commit(NamedTuple):
    """The frames of the events that came in one commit, the first of which has the id `first`."""

    first: int
    frames: list[bytes]
    whole: bytes

    @property
    def last(self) -> int:
        """The id of its last event."""
        return self.first + len(self.frames) - 1


class Reader:
    """What a stream has still to send; `behind` where that is in the database."""

    def __init__(self) -> None:
        self.behind = True
        self.commits: deque[Commit] = deque()
        self.come = asyncio.Event()

    def tell(self, commit: Commit) -> None:
        """Take what was committed."""
        if len(self.commits) < MOST_WAITING:
            self.commits.append(commit)
        else:
            self.behind = True
        self.come.set()


class Head:
    """Where the stream stands, and who reads it."""

    def __init__(self) -> None:
        self.last = 0
        self.attempt = 0
        self.running = False
        self.readers: set[Reader] = set()
        self.job: asyncio.Task[None] | None = None

    def ends_at(self, position: int) -> bool:
        """Whether nothing comes after that event."""
        return self.attempt > 0 and not self.running and position >= self.last

    async def store(self, events: Sequence[NewEvent]) -> None:
        """Commit events, and tell the readers."""
        commit = await run_in_threadpool(append, self.attempt, self.last + 1, events)
        self.last = commit.last
        self.running = events[-1].type != "verdict"
        for reader in self.readers:
            reader.tell(commit)


COLUMNS: Final = [getattr(EventRow, name) for name in InstallEvent.model_fields]

# As many connections as Starlette has threads.
engine = create_engine(f"sqlite:///{os.environ['BENCH_DATABASE']}", pool_size=40)
head = Head()


@listens_for(engine, "connect")
def make_durable(connection: sqlite3.Connection, _: object) -> None:
    """Write-ahead log, every commit on disk."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA busy_timeout = 30000")


def append(attempt: int, first: int, events: Sequence[NewEvent]) -> Commit:
    """Store events of the attempt that runs; the verdict ends it."""
    with Session(engine) as session, session.begin():
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        placed = [
            InstallEvent(id=event_id, attempt=attempt, at=at, **event._asdict())
            for event_id, event in enumerate(events, first)
        ]
        # Else a row without a step would be an INSERT of another shape, and each of them a statement.
        statement = insert(EventRow).execution_options(render_nulls=True)
        session.execute(statement, [event.model_dump() for event in placed])
        if outcome := events[-1].outcome:
            session.get_one(InstallAttempt, attempt).state = outcome
    frames = [event.frame() for event in placed]
    return Commit(first, frames, b"".join(frames))


def page(after: int, last: int) -> tuple[bytes, int]:
    """Events that follow on `after`, up to `last`, as they are sent; and the id of the last of them."""
    with Session(engine) as session:
        # Columns, not objects that a session would look after.
        query = select(*COLUMNS).where(col(EventRow.id) > after, col(EventRow.id) <= last)
        rows = session.execute(query.order_by(col(EventRow.id)).limit(PAGE_EVENTS)).all()
    return b"".join(InstallEvent.model_validate(row).frame() for row in rows), rows[-1].id


def begin(attempt: int) -> None:
    """Store that an attempt has begun."""
    with Session(engine) as session, session.begin():
        session.add(InstallAttempt(attempt=attempt, state="running"))


async def frames(after: int) -> AsyncIterator[bytes]:
    """All that follows on an event: history, and then what is committed, until the latest attempt has its verdict."""
    yield OPENING
    reader = Reader()
    head.readers.add(reader)
    try:
        while not head.ends_at(after):
            if reader.behind:
                reader.behind = False
                reader.commits.clear()
                last = head.last
                while after < last:
                    data, after = await run_in_threadpool(page, after, last)
                    yield data
            elif reader.commits:
                commit = reader.commits.popleft()
                if after < commit.first:
                    yield commit.whole
                elif after < commit.last:
                    yield b"".join(commit.frames[after - commit.first + 1 :])
                after = max(after, commit.last)
            else:
                reader.come.clear()
                await reader.come.wait()
    finally:
        head.readers.discard(reader)


async def known(request: Request) -> None:
    """Whoever gives the install code."""
    if not install_job.is_known([value for name, value in request.headers.raw if name == b"authorization"]):
        raise Problem(401, "INSTALL_CODE_REFUSED")


async def beginning(request: Request) -> int:
    """The id after which the stream is to begin."""
    found = install_job.position(request.query_params.getlist("after"), request.headers.getlist("last-event-id"))
    if found is None:
        raise Problem(400, "INVALID_REQUEST")
    return found


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Make the tables, and learn where the stream stands."""
    SQLModel.metadata.create_all(engine, [SQLModel.metadata.tables[name] for name in ("installs", "events")])
    with Session(engine) as session:
        head.last = session.exec(select(func.max(EventRow.id))).one() or 0
        head.attempt = session.exec(select(func.max(InstallAttempt.attempt))).one() or 0
    yield


app = FastAPI(lifespan=lifespan, dependencies=[Depends(known)])


@app.exception_handler(Problem)
async def answer_problem(_: Request, problem: Problem) -> JSONResponse:
    """A refusal as problem+json."""
    content = {"code": problem.code, "status": problem.status, "requestId": secrets.token_hex(16)}
    return JSONResponse(content, problem.status, media_type="application/problem+json")


@app.post("/v1/installer/install", status_code=202)
async def start_install() -> dict[str, int]:
    """Begin an attempt."""
    if head.running:
        raise Problem(409, "INSTALL_RUNNING")
    head.running = True
    await run_in_threadpool(begin, head.attempt + 1)
    head.attempt += 1
    head.job = asyncio.create_task(install_job.run(head.store))
    return {"attempt": head.attempt}


@app.get("/v1/installer/install/events")
async def stream_install_events(after: Annotated[int, Depends(beginning)]) -> EventSourceResponse:
    """Send what follows on an event."""
    return EventSourceResponse(frames(after), ping=COMMENT_SECONDS, sep="\n")
