from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage.audit import AUDIT
from storage.connections import engine
from storage.database import Storage
from storage.errors import Unavailable
from storage.installer.attempts import NoConfig, RunningAlready, Started
from storage.installer.events import Head
from storage.installer.records import ATTEMPTS, NO_ATTEMPT, StepRecord
from storage.transaction import Transaction
from tests.storage.installer.work import CONFIG, STEPS, SUCCEEDED, append, failed, line, started, step, told, whole
from tests.storage.work import digest, open_storage, rows

pytestmark = pytest.mark.anyio


async def test_before_any_attempt_it_is_idle(storage: Storage) -> None:
    assert await storage.installer.attempts.latest() == NO_ATTEMPT
    assert await storage.installer.events.head() == Head(0, 0, False, None)


async def test_without_a_config_nothing_starts(storage: Storage, url: str) -> None:
    before = len(rows(url, AUDIT))
    assert await storage.installer.attempts.start(STEPS) == NoConfig()
    assert await storage.installer.attempts.latest() == NO_ATTEMPT
    assert len(rows(url, AUDIT)) == before


async def test_an_attempt_starts_with_its_steps_and_the_config(storage: Storage, url: str) -> None:
    await storage.installer.config.put(CONFIG)
    outcome = await storage.installer.attempts.start(STEPS)
    assert isinstance(outcome, Started)
    assert outcome.config == CONFIG
    attempt = outcome.attempt
    assert (attempt.attempt, attempt.state, attempt.ended_at, attempt.detail) == (1, "running", None, None)
    assert attempt.steps == tuple(StepRecord(name, "waiting", None, None) for name in STEPS)
    assert attempt.started_at is not None
    assert await storage.installer.attempts.latest() == attempt
    assert await storage.installer.events.head() == Head(0, 1, True, None)
    last = rows(url, AUDIT)[-1]
    assert (last.action, last.subject) == ("install.started", "1")
    assert json.loads(last.body) == {"config": digest(CONFIG.text), "steps": 2}


async def test_of_many_starts_at_once_one_begins(storage: Storage, url: str) -> None:
    await storage.installer.config.put(CONFIG)
    outcomes = await asyncio.gather(*(storage.installer.attempts.start(STEPS) for _ in range(5)))
    assert isinstance(outcomes[0], Started)
    assert outcomes[1:] == [RunningAlready()] * 4
    assert len(rows(url, ATTEMPTS)) == 1


async def test_of_two_servers_that_start_at_once_one_begins(storage: Storage, url: str, audit_file: Path) -> None:
    await storage.installer.config.put(CONFIG)
    async with open_storage(url, audit_file) as other:
        outcomes = await asyncio.gather(*(each.installer.attempts.start(STEPS) for each in (storage, other)))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["RunningAlready", "Started"]
    assert len(rows(url, ATTEMPTS)) == 1


async def test_the_database_itself_takes_no_second_running_attempt(storage: Storage, url: str) -> None:
    await started(storage)
    writing = engine(url, "write")
    second = ATTEMPTS.insert().values(attempt=2, state="running", steps="[]", started_at=1)
    with writing.connect() as connection, pytest.raises(sa.exc.IntegrityError), connection.begin():
        connection.execute(second)
    writing.dispose()


async def test_attempts_count_on_whatever_became_of_them(storage: Storage) -> None:
    for number, verdict in enumerate([SUCCEEDED, failed("no"), SUCCEEDED], 1):
        assert await started(storage) == number
        await append(storage, number, verdict)
    latest = await storage.installer.attempts.latest()
    assert (latest.attempt, latest.state, latest.last_event_id) == (3, "succeeded", 3)
    assert await started(storage) == 4
    assert (await storage.installer.attempts.latest()).last_event_id == 3
    assert await storage.installer.events.head() == Head(3, 4, True, None)


async def test_a_start_that_is_not_committed_leaves_no_attempt(storage: Storage) -> None:
    await storage.installer.config.put(CONFIG)

    def fail(transaction: Transaction) -> None:
        raise transaction.connection.dialect.loaded_dbapi.OperationalError("away")

    storage.writer.failure_points.before_commit = fail
    with pytest.raises(Unavailable):
        await storage.installer.attempts.start(STEPS)
    storage.writer.failure_points.before_commit = None
    assert await storage.installer.attempts.latest() == NO_ATTEMPT
    assert await started(storage) == 1


async def test_an_attempt_that_no_process_runs_is_failed_with_its_running_step(
    storage: Storage, url: str, audit_file: Path
) -> None:
    attempt = await started(storage, "prepare", "install", "finish")
    await append(storage, attempt, *(step("prepare", status) for status in ("started", "succeeded")))
    await append(storage, attempt, step("install", "started"), line("half", step="install"))
    async with open_storage(url, audit_file) as again:
        assert await again.installer.attempts.orphaned("the server ended \ud800")
        assert not await again.installer.attempts.orphaned("again")
    latest = await storage.installer.attempts.latest()
    assert (latest.state, latest.detail, latest.last_event_id) == ("failed", "the server ended \ufffd", 6)
    assert [each.status for each in latest.steps] == ["succeeded", "failed", "waiting"]
    assert latest.ended_at == latest.steps[1].ended_at is not None
    last = [told(event) for event in await whole(storage, 4)]
    assert [(each["type"], each.get("step"), each["detail"]) for each in last] == [
        ("step", "install", "the server ended \ufffd"),
        ("verdict", None, "the server ended \ufffd"),
    ]
    assert await storage.installer.events.head() == Head(6, 1, False, 6)
    ended = rows(url, AUDIT)[-1]
    assert (ended.action, ended.subject) == ("install.failed", "1")
    assert json.loads(ended.body) == {"detail": "the server ended \ufffd", "lastEventId": 6}


async def test_an_attempt_that_ended_before_any_step_began_is_failed_by_its_verdict_alone(storage: Storage) -> None:
    await started(storage)
    assert await storage.installer.attempts.orphaned("gone")
    assert [event.type for event in await whole(storage)] == ["verdict"]


async def test_where_nothing_runs_nothing_is_failed(storage: Storage, url: str) -> None:
    before = len(rows(url, AUDIT))
    assert not await storage.installer.attempts.orphaned("gone")
    assert (await whole(storage), len(rows(url, AUDIT))) == ([], before)
