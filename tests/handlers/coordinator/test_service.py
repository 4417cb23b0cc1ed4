from __future__ import annotations

import asyncio
import inspect
from functools import partial
from pathlib import Path

from generated.coordinator.operations import OPERATIONS
from handlers.coordinator.app import App
from handlers.coordinator.definitions import Definitions
from handlers.coordinator.deployment import Deployment
from handlers.coordinator.execution.caller import Caller
from handlers.coordinator.service import service
from tests.support.gatehouse import NewServer
from tests.support.inprocess import storage_of


def test_each_operation_is_served_by_the_function_of_its_name(new_server: NewServer) -> None:
    asyncio.run(look(new_server().state))


async def look(state: Path) -> None:
    async with storage_of(state) as storage:
        app = App(storage, Deployment(storage.workflows, {}), Definitions(storage.workflows), {}, Caller())
        served = service(app)
    for operation in OPERATIONS:
        handler = getattr(served, operation.name)
        assert isinstance(handler, partial)
        assert handler.args == (app,)
        assert handler.func.__name__ == operation.name
        assert inspect.iscoroutinefunction(handler.func)
