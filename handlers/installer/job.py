"""Runs installs, one at a time: each is an attempt at the steps of the plan, with the config as it stood at its start.

What another process has left running is ended before anything else.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from handlers.installer.course import Course
from handlers.installer.feed import Feed
from handlers.installer.plan import load
from handlers.installer.record import PATIENCE_SECONDS, Record
from handlers.steps import leftover
from handlers.steps.plan import PlanError, Step
from handlers.steps.runner import Surroundings
from storage.errors import StorageError, Unavailable
from storage.installer.attempts import NoConfig, RunningAlready, Started
from storage.installer.config import StoredConfig
from storage.installer.records import Attempt
from storage.installer.storage import InstallerStorage

log = logging.getLogger("gatehouse.installer")

# What commands find in their environment; of this server's own settings they find none.
SETTINGS_PREFIX: Final = "GATEHOUSE_"
NODE_YAML: Final = "GATEHOUSE_NODE_YAML"
ATTEMPT: Final = "GATEHOUSE_ATTEMPT"

# From SIGTERM to SIGKILL after a time-out; how long what a step has started may still write when the step is over.
GRACE_SECONDS: Final = 2.0
REST_SECONDS: Final = 1.0
# How long the verdict is waited for when the server stops.
LAST_WORD_SECONDS: Final = 0.5
_PAUSE_SECONDS: Final = 1.0
_MODE: Final = 0o600

DIED: Final = "the server ended before the install did"
FAULT: Final = "this server has failed at it, and its log tells where"


class _Begun(NamedTuple):
    """An attempt that has begun, with its plan or what is wrong with that."""

    started: Started
    plan: Sequence[Step] | PlanError


class Job:
    """What runs installs beside the listeners, and the way to start one.

    Commands run in `folder`, whose folder `install` has the node's config and the mark of the command that runs;
    `plan` is the plan's file, and `node_yaml` makes the node's config of what is stored.
    """

    def __init__(
        self,
        storage: InstallerStorage,
        feed: Feed,
        *,
        folder: Path,
        plan: Path,
        node_yaml: Callable[[StoredConfig], str],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._storage = storage
        self._feed = feed
        self._folder = folder.absolute()
        self._plan = plan
        self._node_yaml = node_yaml
        self._patience = patience_seconds
        # Held while an attempt begins or is looked for that nobody runs, so that none is taken for the other.
        self._lock = asyncio.Lock()
        self._settled = False
        self._begun: deque[_Begun] = deque()
        self._running = False
        self._stopped = False
        self._come = asyncio.Event()
        self._starting: set[asyncio.Task[Attempt | RunningAlready | NoConfig]] = set()

    async def start(self) -> Attempt | RunningAlready | NoConfig:
        """Begin an attempt, which `run` runs; one whose plan cannot be read fails at once.

        Raises Unavailable, Overloaded, AuditUnavailable and Unstorable.
        """
        # A client that leaves must not leave an attempt behind that has begun and that nobody runs.
        task = asyncio.create_task(self._start())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return await asyncio.shield(task)

    async def run(self, stopping: asyncio.Event) -> None:
        """Run what has begun, until `stopping`: then end what runs, record that, and end the streams."""
        halt = asyncio.create_task(stopping.wait())
        try:
            while self._begun or self._starting or not stopping.is_set():
                if self._begun:
                    await self._attend(self._begun.popleft(), stopping)
                elif stopping.is_set():
                    # One that begins while the server stops has its verdict as any other.
                    await asyncio.wait(self._starting)
                else:
                    await self._wait(halt)
        finally:
            halt.cancel()
            if stopping.is_set():
                self._stopped = True
                self._feed.stopped()

    async def _start(self) -> Attempt | RunningAlready | NoConfig:
        plan = await asyncio.to_thread(self._load)
        names = [] if isinstance(plan, PlanError) else [step.name for step in plan]
        async with self._lock:
            if self._stopped:
                raise Unavailable("the server stops, and nobody would run it")
            await self._settle()
            try:
                outcome = await self._storage.attempts.start(names)
            except StorageError:
                # It may have begun all the same, and then nobody runs it.
                self._settled = False
                self._come.set()
                raise
            if not isinstance(outcome, Started):
                return outcome
            self._feed.began(outcome.attempt.attempt)
            self._begun.append(_Begun(outcome, plan))
            self._come.set()
            return outcome.attempt

    def _load(self) -> Sequence[Step] | PlanError:
        try:
            return load(self._plan)
        except PlanError as error:
            return error

    async def _settle(self) -> None:
        """End what nobody runs any more: a command that outlived its server, and an attempt."""
        if self._settled or self._running or self._begun:
            return
        await leftover.end(self._mark, grace_seconds=GRACE_SECONDS)
        await self._storage.attempts.orphaned(DIED)
        await self._feed.catch_up()
        self._settled = True

    async def _wait(self, halt: asyncio.Task[bool]) -> None:
        """Wait for an attempt that has begun, or a reason to look again."""
        self._come.clear()
        looking = asyncio.create_task(self._look())
        try:
            await asyncio.wait({looking, halt}, return_when=asyncio.FIRST_COMPLETED)
            if looking.done():
                looking.result()
        finally:
            looking.cancel()

    async def _look(self) -> None:
        complained = False
        while not (self._settled or self._begun):
            try:
                async with self._lock:
                    await self._settle()
            except StorageError as error:
                if not complained:
                    log.warning("storage: %s", error)
                    complained = True
                await asyncio.sleep(_PAUSE_SECONDS)
        await self._come.wait()

    async def _attend(self, begun: _Begun, stopping: asyncio.Event) -> None:
        self._running = True
        # Unless it is seen to its end, it is one that nobody runs.
        self._settled = False
        try:
            self._settled = await self._run(begun, stopping)
        finally:
            self._running = False

    async def _run(self, begun: _Begun, stopping: asyncio.Event) -> bool:
        """Run an attempt; False where its verdict could not be recorded before the server's stop."""
        attempt = begun.started.attempt
        record = Record(
            self._storage.events, self._feed, attempt.attempt, attempt.last_event_id, patience_seconds=self._patience
        )
        course = Course(record, self._surroundings(attempt.attempt, stopping))
        writing = asyncio.create_task(record.run())
        try:
            course.end(await self._outcome(begun, course, writing))
            halt = asyncio.create_task(stopping.wait())
            await asyncio.wait({writing, halt}, return_when=asyncio.FIRST_COMPLETED)
            halt.cancel()
            await asyncio.wait({writing}, timeout=LAST_WORD_SECONDS)
            if writing.done():
                writing.result()
                return True
            log.error("the verdict could not be recorded", extra={"attempt": attempt.attempt})
            return False
        finally:
            writing.cancel()

    async def _outcome(self, begun: _Begun, course: Course, writing: asyncio.Task[None]) -> str | None:
        """Return why the attempt failed, or None."""
        if isinstance(begun.plan, PlanError):
            return f"the plan is refused: {begun.plan}"
        try:
            unwritten = await asyncio.to_thread(self._write_node_yaml, begun.started.config)
            return unwritten or await course.run(begun.plan, writing)
        except Exception:
            log.exception("an install failed in the server")
            return FAULT

    def _write_node_yaml(self, config: StoredConfig) -> str | None:
        """Write the config for the commands; returns why it cannot be written."""
        text, file = self._node_yaml(config), self._node_file
        try:
            file.parent.mkdir(mode=0o700, exist_ok=True)
            file.unlink(missing_ok=True)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
        except OSError as error:
            return f"{file.name} cannot be written: {error.strerror}"
        return None

    def _surroundings(self, attempt: int, stopping: asyncio.Event) -> Surroundings:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIX)}
        return Surroundings(
            environment=environment | {NODE_YAML: str(self._node_file), ATTEMPT: str(attempt)},
            mark=self._mark,
            folder=self._folder,
            grace_seconds=GRACE_SECONDS,
            rest_seconds=REST_SECONDS,
            giving_up=stopping,
        )

    @property
    def _node_file(self) -> Path:
        return self._folder / "install" / "node.yaml"

    @property
    def _mark(self) -> Path:
        return self._folder / "install" / "step"
