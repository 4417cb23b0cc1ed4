from __future__ import annotations

import pytest

from storage.database import Storage
from tests.storage.execution.work import DONE, run_of, settle, taken, taken_up

pytestmark = pytest.mark.anyio


async def test_its_parts_work_on_one_database(storage: Storage) -> None:
    claim = await taken(storage)
    await taken_up(storage, claim)
    await settle(storage, claim, DONE)
    assert (await run_of(storage, claim)).state == "completed"
    assert await storage.execution.recoveries.uncertain_call("no run") is None
