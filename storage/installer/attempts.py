"""Attempts to install: begun, shown, and ended where the process that ran one is gone; events move them (stream.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from storage.committer import one_by_one
from storage.installer.config import StoredConfig, stored_config
from storage.installer.records import ATTEMPTS, Attempt, StepRecord, latest, write_steps
from storage.installer.stream import Appended, NewEvent, Stream
from storage.readers import Readers
from storage.transaction import Transaction
from storage.writer import Writer


@dataclass(frozen=True, slots=True)
class Started:
    """An attempt that has begun, and the config that it installs."""

    attempt: Attempt
    config: StoredConfig


@dataclass(frozen=True, slots=True)
class RunningAlready:
    """Nothing has begun, since an attempt runs."""


@dataclass(frozen=True, slots=True)
class NoConfig:
    """Nothing has begun, since no config was ever stored."""


Outcome: TypeAlias = Started | RunningAlready | NoConfig


class Attempts:
    """Every method raises Unavailable and Overloaded; those that write raise AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers, stream: Stream) -> None:
        self._writer = writer
        self._readers = readers
        self._stream = stream

    async def latest(self) -> Attempt:
        """The attempt that began last; attempt 0, which is idle, before any."""
        return await self._readers.read(latest)

    async def start(self, step_names: Sequence[str]) -> Outcome:
        """Begin the next attempt with these steps, whose names differ, and the config as it stands."""
        return await self._writer.submit(_start_many, tuple(step_names))

    async def orphaned(self, detail: str) -> bool:
        """Fail a running attempt that no process runs any more, and its running step; False where none runs."""
        # Each server looks at its start, and mostly there is nothing to write.
        if (await self.latest()).state != "running":
            return False
        return await self._writer.submit(self._orphan_many, detail)

    def _orphan_many(self, transaction: Transaction, details: Sequence[str]) -> list[bool]:
        return [self._orphan(transaction, detail) for detail in details]

    def _orphan(self, transaction: Transaction, detail: str) -> bool:
        found = latest(transaction.connection)
        if found.state != "running":
            return False
        events = [
            NewEvent("step", step=step.name, status="failed", detail=detail)
            for step in found.steps
            if step.status == "running"
        ]
        verdict = NewEvent("verdict", outcome="failed", detail=detail)
        self._stream.append(transaction, [Appended(found.attempt, [*events, verdict])])
        return True


def _start(transaction: Transaction, step_names: tuple[str, ...]) -> Outcome:
    connection = transaction.connection
    config = stored_config(connection)
    if config is None:
        return NoConfig()
    before = latest(connection)
    if before.state == "running":
        return RunningAlready()
    attempt = Attempt(
        attempt=before.attempt + 1,
        state="running",
        steps=tuple(StepRecord(name, "waiting", None, None) for name in step_names),
        started_at=transaction.now,
        ended_at=None,
        detail=None,
        last_event_id=before.last_event_id,
    )
    connection.execute(
        ATTEMPTS.insert().values(
            attempt=attempt.attempt, state="running", steps=write_steps(attempt.steps), started_at=transaction.now
        )
    )
    transaction.record("install.started", str(attempt.attempt), {"config": config.digest, "steps": len(attempt.steps)})
    return Started(attempt, config)


_start_many = one_by_one(_start)
