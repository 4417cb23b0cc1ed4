from __future__ import annotations

import json

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from tests.storage.installer.work import append, failed, line, started, step
from tests.storage.work import rows

pytestmark = pytest.mark.anyio


async def test_events_of_one_transaction_happen_at_its_time(storage: Storage) -> None:
    attempt = await started(storage)
    stored = await append(storage, attempt, step("prepare", "started"), line(), step("prepare", "succeeded"))
    assert len({json.loads(event.body)["at"] for event in stored}) == 1
    [first, _] = (await storage.installer.attempts.latest()).steps
    assert first.started_at == first.ended_at


async def test_a_step_that_starts_again_runs_again(storage: Storage) -> None:
    attempt = await started(storage)
    await append(storage, attempt, step("prepare", "started"), step("prepare", "failed"))
    await append(storage, attempt, step("prepare", "started"))
    [first, _] = (await storage.installer.attempts.latest()).steps
    assert (first.status, first.ended_at) == ("running", None)


async def test_the_audit_tells_the_beginning_of_a_long_reason(storage: Storage, url: str) -> None:
    attempt = await started(storage)
    await append(storage, attempt, failed("\x00" * 100_000))
    assert json.loads(rows(url, AUDIT)[-1].body) == {"detail": "\x00" * 1000, "lastEventId": 1}
    assert (await storage.installer.attempts.latest()).detail == "\x00" * 100_000
