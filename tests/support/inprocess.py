"""The control listener as an ASGI application in the test's own process, without a socket."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from handlers.coordinator.api import coordinator_api
from handlers.coordinator.app import App
from handlers.coordinator.definitions import Definitions
from handlers.coordinator.deployment import Deployment
from handlers.coordinator.execution.caller import Caller
from handlers.coordinator.execution.connection import connections
from handlers.coordinator.sources import Sources
from handlers.gateway.listener import Listener
from handlers.gateway.telemetry import Metrics, RequestLog
from storage.database import Storage
from tools import settings
from tools.state import StateFolder


@contextlib.asynccontextmanager
async def storage_of(state: Path) -> AsyncIterator[Storage]:
    """Open the storage of a state folder."""
    folder = StateFolder(state)
    opened = await Storage.open(f"sqlite:///{folder.database}", node="local", audit_file=folder.audit_file)
    try:
        yield opened
    finally:
        await opened.close()


@contextlib.asynccontextmanager
async def listener_of(state: Path) -> AsyncIterator[Listener]:
    """Serve a state folder as `gatehouse serve` does."""
    folder = StateFolder(state)
    async with storage_of(state) as storage:
        called = connections(settings.load(folder.settings_file).called())
        deployment = Deployment(storage.workflows, called)
        await deployment.load()
        sources = Sources(lambda: settings.load(folder.settings_file).events, folder.settings_file)
        token = folder.operator_token.read_text(encoding="utf-8").strip()
        app = App(storage, deployment, Definitions(storage.workflows), called, Caller())
        yield Listener("control", [coordinator_api(app, sources, token)], {}, Metrics(), RequestLog())
