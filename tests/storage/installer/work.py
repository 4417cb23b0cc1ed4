"""Work for the tests of the installer to do: a config, an attempt that runs, and what its steps tell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from storage.database import Storage
from storage.installer.attempts import Started
from storage.installer.config import StoredConfig
from storage.installer.events import NewEvent, StoredEvent

CONFIG = StoredConfig(media_type="application/json", text='{"role": "founder"}', value='{"role":"founder"}')
STEPS = ("prepare", "install")
SUCCEEDED = NewEvent("verdict", outcome="succeeded")


async def started(storage: Storage, *steps: str) -> int:
    """The number of an attempt that runs, with a config stored before it."""
    assert await storage.installer.config.put(CONFIG) == CONFIG
    outcome = await storage.installer.attempts.start(steps or STEPS)
    assert isinstance(outcome, Started)
    return outcome.attempt.attempt


def line(text: str = "a line", step: str = "prepare") -> NewEvent:
    """A line of output."""
    return NewEvent("log", step=step, line=text)


def lines(count: int) -> list[NewEvent]:
    """Lines that differ."""
    return [line(f"line {number}") for number in range(count)]


def step(name: str, status: Any, detail: str | None = None) -> NewEvent:
    """An event of a step."""
    return NewEvent("step", step=name, status=status, detail=detail)


def failed(detail: str | None) -> NewEvent:
    """A verdict."""
    return NewEvent("verdict", outcome="failed", detail=detail)


async def append(storage: Storage, attempt: int, *events: NewEvent) -> list[StoredEvent]:
    """Append to the attempt that runs."""
    stored = await storage.installer.events.append(attempt, events)
    assert stored is not None
    return stored


async def appended(storage: Storage, attempt: int, *batches: Sequence[NewEvent]) -> list[list[StoredEvent] | None]:
    """Append all in one batch of the writer, since they are submitted in one turn of the loop."""
    return list(await asyncio.gather(*(storage.installer.events.append(attempt, batch) for batch in batches)))


async def whole(storage: Storage, after: int = 0) -> list[StoredEvent]:
    """All events beyond `after`, page by page."""
    found: list[StoredEvent] = []
    while page := await storage.installer.events.page(found[-1].id if found else after, 256):
        found += page
    return found


async def ids(storage: Storage) -> list[int]:
    """The ids of all events, each of which says its own."""
    found = await whole(storage)
    assert [told(event)["id"] for event in found] == [event.id for event in found]
    return [event.id for event in found]


def told(event: StoredEvent) -> dict[str, Any]:
    """What an event's body says."""
    body: dict[str, Any] = json.loads(event.body)
    return body
