"""The install stream at the limit of one process: bare ASGI, each frame encoded once and all of them kept in memory.

The tables are Gatehouse's own. BENCH_DATABASE names the file, BENCH_CODE and BENCH_PLAN those of the code and the plan.
It sends no comments, and what it keeps has no bound.
"""

import asyncio
import gc
import os
import sqlite3
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

import msgspec
import orjson
from sqlmodel import create_engine

from storage.installer.events import NewEvent
from storage.tables import METADATA
from tools.bench.peers import install_job

DATABASE: Final = os.environ["BENCH_DATABASE"]
INSTALL: Final = "/v1/installer/install"
EVENTS: Final = "/v1/installer/install/events"
OPENING: Final = b": gatehouse\n\nretry: 2000\n\n"
# What is sent at once of history.
BLOCK_EVENTS: Final = 256

BEGIN: Final = "INSERT INTO install_attempts (attempt, state, steps, started_at) VALUES (?, 'running', '[]', 0)"
INSERT: Final = "INSERT INTO install_events (id, attempt, type, begins, body) VALUES (?, ?, ?, ?, ?)"
COUNT: Final = (
    "INSERT INTO install_stream (id, last_id, length) VALUES (1, ?1, ?2)"
    " ON CONFLICT (id) DO UPDATE SET last_id = ?1, length = ?2"
)
END: Final = "UPDATE install_attempts SET state = ?, ended_at = 0, verdict_id = ? WHERE attempt = ?"

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]


class Event(msgspec.Struct, omit_defaults=True):
    id: int
    attempt: int
    type: str
    at: str
    step: str | None = None
    status: str | None = None
    line: str | None = None
    outcome: str | None = None
    detail: str | None = None


encode: Final = msgspec.json.Encoder().encode


class Events:
    """All frames in memory, and who waits for the next; rows are written by one thread."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.blocks: list[bytes] = []
        self.attempt = 0
        self.running = False
        self.length = 0
        self.cut = (0, 0, b"")
        self.waiting: list[asyncio.Future[None]] = []
        self.thread = ThreadPoolExecutor(1)
        engine = create_engine(f"sqlite:///{DATABASE}")
        METADATA.create_all(engine)
        engine.dispose()
        self.connection = sqlite3.connect(DATABASE, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.job: asyncio.Task[None] | None = None

    async def start(self) -> bool:
        """Begin an attempt; False where one runs."""
        if self.running:
            return False
        self.running = True
        self.attempt += 1
        await asyncio.get_running_loop().run_in_executor(self.thread, self.connection.execute, BEGIN, (self.attempt,))
        self.job = asyncio.create_task(install_job.run(self.store))
        return True

    async def store(self, events: Sequence[NewEvent]) -> None:
        """Commit events, and wake the readers."""
        self.frames += await asyncio.get_running_loop().run_in_executor(self.thread, self.append, events)
        for start in range(len(self.blocks) * BLOCK_EVENTS, len(self.frames) - BLOCK_EVENTS + 1, BLOCK_EVENTS):
            self.blocks.append(b"".join(self.frames[start : start + BLOCK_EVENTS]))
        self.running = events[-1].type != "verdict"
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            # That of a reader that has left is cancelled.
            if not each.done():
                each.set_result(None)

    def append(self, events: Sequence[NewEvent]) -> list[bytes]:
        """Store events of the attempt that runs, in one transaction; their frames."""
        self.connection.execute("BEGIN IMMEDIATE")
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        rows, frames = [], []
        for event_id, (kind, *others) in enumerate(events, len(self.frames) + 1):
            body = encode(Event(event_id, self.attempt, kind, at, *others))
            rows.append((event_id, self.attempt, kind, self.length, body.decode()))
            frames.append(b"id: %d\nevent: %b\ndata: %b\n\n" % (event_id, kind.encode(), body))
            self.length += len(body)
        self.connection.executemany(INSERT, rows)
        last = rows[-1][0]
        self.connection.execute(COUNT, (last, self.length))
        if outcome := events[-1].outcome:
            self.connection.execute(END, (outcome, last, self.attempt))
        self.connection.execute("COMMIT")
        return frames

    def ends_at(self, position: int) -> bool:
        """Whether nothing comes after that event."""
        return self.attempt > 0 and not self.running and position >= len(self.frames)

    def beyond(self, position: int) -> tuple[bytes, int]:
        """Frames that follow on an event, and the id of the last of them."""
        number, offset = divmod(position, BLOCK_EVENTS)
        if number < len(self.blocks):
            last = (number + 1) * BLOCK_EVENTS
            return (b"".join(self.frames[position:last]) if offset else self.blocks[number]), last
        # Readers at the head are at the same place, and get the same bytes.
        if self.cut[:2] != (position, len(self.frames)):
            self.cut = (position, len(self.frames), b"".join(self.frames[position:]))
        return self.cut[2], self.cut[1]


class Application:
    """The ASGI application."""

    events: Events

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, or follow the lifespan."""
        if scope["type"] == "lifespan":
            await self.live(receive, send)
        elif not install_job.is_known([value for name, value in scope["headers"] if name == b"authorization"]):
            await answer(send, 401, {"code": "INSTALL_CODE_REFUSED"})
        elif (scope["method"], scope["path"]) == ("POST", INSTALL):
            started = await self.events.start()
            await answer(send, 202 if started else 409, {} if started else {"code": "INSTALL_RUNNING"})
        elif (scope["method"], scope["path"]) == ("GET", EVENTS):
            await self.stream(scope, receive, send)
        else:
            await answer(send, 404, {"code": "NOT_FOUND"})

    async def live(self, receive: Receive, send: Send) -> None:
        """Make the database, and wait for the end."""
        await receive()
        self.events = Events()
        # The collector need not look through what is there for good, nor at every seven hundredth event.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def stream(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Send what follows on an event, until the latest attempt has its verdict or the reader leaves."""
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        header = [value.decode("latin-1") for name, value in scope["headers"] if name == b"last-event-id"]
        position = install_job.position(query.get("after", ()), header)
        if position is None:
            await answer(send, 400, {"code": "INVALID_REQUEST"})
            return
        sending = asyncio.create_task(self.send_from(position, send))
        leaving = asyncio.create_task(left(receive))
        leaving.add_done_callback(lambda _: sending.cancel())
        try:
            await asyncio.wait({sending})
        finally:
            leaving.cancel()

    async def send_from(self, position: int, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        events, loop = self.events, asyncio.get_running_loop()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": OPENING, "more_body": True})
        while not events.ends_at(position):
            if position < len(events.frames):
                data, position = events.beyond(position)
                await send({"type": "http.response.body", "body": data, "more_body": True})
                if position < len(events.frames):
                    # A client that takes all at once must not keep the others waiting.
                    await asyncio.sleep(0)
            else:
                come = loop.create_future()
                events.waiting.append(come)
                await come
        await send({"type": "http.response.body"})


async def left(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def answer(send: Send, status: int, value: dict[str, str]) -> None:
    """Send a JSON answer."""
    body = orjson.dumps(value)
    kind = b"application/json" if status < 400 else b"application/problem+json"
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


app = Application()
