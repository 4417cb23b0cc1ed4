"""An installer at work, for tests: its job, its feed, and what its attempts came to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from handlers.installer.feed import Feed
from handlers.installer.job import Job
from storage.database import Storage
from storage.installer.attempts import NoConfig, RunningAlready
from storage.installer.config import StoredConfig
from storage.installer.records import Attempt
from tests.storage.installer.work import CONFIG, told, whole


class Installer:
    """A job that runs until it is stopped."""

    def __init__(self, storage: Storage, folder: Path, *, patience_seconds: float = 30.0) -> None:
        self.storage = storage
        self.folder = folder
        self.plan_file = folder / "install-plan.yaml"
        self.feed = Feed(storage.installer.events)
        self.job = Job(
            storage.installer,
            self.feed,
            folder=folder,
            plan=self.plan_file,
            node_yaml=node_yaml,
            patience_seconds=patience_seconds,
        )
        self.stopping = asyncio.Event()

    def plan(self, *scripts: str, seconds: int = 30) -> None:
        """Let the steps be these scripts, `one`, `two`, …."""
        self.steps(*(["sh", "-c", script] for script in scripts), seconds=seconds)

    def steps(self, *commands: Sequence[str], seconds: int = 30) -> None:
        names = ("one", "two", "three", "four")
        steps = [
            {"name": name, "run": list(command), "timeoutSeconds": seconds}
            for name, command in zip(names, commands, strict=False)
        ]
        self.plan_file.write_text(json.dumps({"steps": steps}))

    async def start(self) -> Attempt:
        """Begin an attempt, with a config."""
        await self.storage.installer.config.put(CONFIG)
        outcome = await self.job.start()
        assert not isinstance(outcome, RunningAlready | NoConfig)
        return outcome

    async def install(self, *scripts: str, seconds: int = 30) -> Attempt:
        """Run an attempt at these scripts to its end."""
        self.plan(*scripts, seconds=seconds)
        await self.start()
        return await self.end()

    async def end(self) -> Attempt:
        """Wait for the verdict of the latest attempt, as any reader does."""
        async with asyncio.timeout(30):
            async for _ in await self.feed.open(0):
                pass
        return await self.storage.installer.attempts.latest()

    async def until(self, line: str) -> None:
        """Wait for a line that a reader is sent."""
        async with asyncio.timeout(30):
            async for chunk in await self.feed.open(0):
                if f'"line":"{line}"'.encode() in chunk:
                    return
        raise AssertionError(f"the stream ended without {line}")

    async def lines(self, step: str | None = None) -> list[str]:
        return [event["line"] for event in await self.events() if "line" in event and step in (None, event["step"])]

    async def events(self) -> list[dict[str, Any]]:
        return [told(event) for event in await whole(self.storage)]


def node_yaml(config: StoredConfig) -> str:
    return f"# {config.media_type}\n{config.text}\n"


@contextlib.asynccontextmanager
async def installing(storage: Storage, folder: Path, *, patience_seconds: float = 30.0) -> AsyncIterator[Installer]:
    """Run a job as long as the block runs."""
    installer = Installer(storage, folder, patience_seconds=patience_seconds)
    task = asyncio.create_task(installer.job.run(installer.stopping))
    try:
        yield installer
    finally:
        installer.stopping.set()
        await task


def outline(events: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """What events tell, without their times and ids."""
    members = ("type", "step", "status", "line", "outcome", "detail")
    return [tuple(event[member] for member in members if member in event) for event in events]
