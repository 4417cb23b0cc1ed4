from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from handlers.coordinator.app import App
from handlers.coordinator.definitions import Definitions
from handlers.coordinator.deployment import Deployment
from handlers.coordinator.execution.caller import Caller
from tests.support.gatehouse import NewServer
from tests.support.inprocess import storage_of


def test_what_handlers_work_with_stays_what_it_is(new_server: NewServer) -> None:
    asyncio.run(put_together(new_server().state))


async def put_together(state: Path) -> None:
    async with storage_of(state) as storage:
        app = App(storage, Deployment(storage.workflows, {}), Definitions(storage.workflows), {}, Caller())
        with pytest.raises(FrozenInstanceError):
            app.storage = storage  # type: ignore[misc]
