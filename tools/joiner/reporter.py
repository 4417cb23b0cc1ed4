"""Reports steps and log lines in batches, in order, each until it is answered, and heartbeats where nothing happens."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import deque
from datetime import UTC, datetime
from typing import Final, NamedTuple

from tools.joiner.folder import Batch, NodeFolder
from tools.joiner.founder import Founder, Pace
from tools.joiner.progress import Progress

# Bounds of the operation: 500 events, and 4 MiB, of which this stays far away.
MOST_EVENTS: Final = 500
MOST_BYTES: Final = 1_048_576
# Lines that wait in memory while the founder is away; then the command has to wait, too.
MOST_WAITING: Final = 10_000


class _Event(NamedTuple):
    text: str
    recorded: asyncio.Future[None] | None


class Reporter:
    """The only one who reports of a join; `run` sends what the others hand in."""

    def __init__(self, founder: Founder, folder: NodeFolder, progress: Progress, pace: Pace) -> None:
        self._founder = founder
        self._folder = folder
        self._progress = progress
        self._pace = pace
        self._waiting: deque[_Event] = deque()
        self._begun = asyncio.Event()
        self._due_now = asyncio.Event()
        self._room = asyncio.Event()

    async def step(self, step: str, status: str, message: str | None = None) -> None:
        """Report a step, after all lines that were handed in before; returns when it is recorded."""
        self._progress.step(step, status, message)
        recorded = asyncio.get_running_loop().create_future()
        event = {"type": "step", "step": step, "status": status} | ({} if message is None else {"message": message})
        self._add(event, recorded)
        self._due_now.set()
        await recorded

    async def line(self, step: str, message: str) -> None:
        """Hand in a line of a step's output; waits while too many wait."""
        self._progress.line(step, message)
        while len(self._waiting) >= MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self._add({"type": "log", "step": step, "message": message}, None)
        if len(self._waiting) >= MOST_EVENTS:
            self._due_now.set()

    async def resend(self) -> None:
        """Send the batch that an earlier process left unanswered, by its key and its bytes."""
        batch = self._folder.unsent()
        if batch is not None:
            await self._founder.report(batch)
            self._folder.sent()

    async def run(self) -> None:
        """Send until the join has ended, which JoinEnded tells."""
        while True:
            await self._due()
            await self._send(self._take())

    def _add(self, event: dict[str, str], recorded: asyncio.Future[None] | None) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._waiting.append(_Event(json.dumps(event | {"at": at}, ensure_ascii=False), recorded))
        self._begun.set()

    async def _due(self) -> None:
        """Wait until there is a batch to send: a full one, one that is old enough, or an empty one as a heartbeat."""
        if await _within(self._pace.heartbeat, self._begun):
            await _within(self._pace.batch, self._due_now)

    def _take(self) -> list[_Event]:
        """Take the events of the next batch; what is left after it is due at once."""
        events: list[_Event] = []
        size = 0
        while self._waiting and len(events) < MOST_EVENTS and size < MOST_BYTES:
            events.append(self._waiting.popleft())
            size += len(events[-1].text.encode())
        self._room.set()
        if self._waiting:
            self._due_now.set()
        else:
            self._begun.clear()
            self._due_now.clear()
        return events

    async def _send(self, events: list[_Event]) -> None:
        batch = Batch(str(uuid.uuid4()), f'{{"events":[{",".join(event.text for event in events)}]}}')
        if events:
            self._folder.sending(batch)
        await self._founder.report(batch)
        if events:
            self._folder.sent()
        for event in events:
            if event.recorded is not None:
                event.recorded.set_result(None)


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for an event; False where it has not come in time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
