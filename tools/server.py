"""Puts a server together from its settings and runs it: storage, the APIs, and a listener for each socket."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import uvloop

from handlers.coordinator.api import coordinator_api, coordinator_document
from handlers.coordinator.app import App
from handlers.coordinator.deployment import Deployment
from handlers.coordinator.sources import Sources
from handlers.gateway.faults import Api
from handlers.gateway.listener import Listener
from handlers.gateway.outlet import outlet
from handlers.gateway.pages import document_pages, metrics_page
from handlers.gateway.server import Bound, serve
from handlers.gateway.telemetry import Metrics, RequestLog, configure_logging
from storage.database import Storage
from tools.commands import database
from tools.settings import ListenerName, Settings
from tools.state import StateFolder


def run(
    settings: Settings,
    folder: StateFolder,
    sockets: Mapping[ListenerName, socket.socket],
    sources: Sources,
    *,
    recovery_only: bool,
    ready: Callable[[], None],
) -> None:
    """Serve a listener on each of `sockets` until SIGTERM or SIGINT; `ready` is called when the first request can come.

    Raises what `Storage.open` raises, and StateError where the operator's token is none.
    """
    with contextlib.ExitStack() as opened:
        # A process that was started without stderr has no log.
        stderr = sys.stderr or opened.enter_context(Path(os.devnull).open("w"))
        log = opened.enter_context(outlet(stderr.fileno()))
        configure_logging(log)
        request_log = RequestLog(log)
        uvloop.run(_run(settings, folder, sockets, sources, request_log, recovery_only=recovery_only, ready=ready))


async def _run(
    settings: Settings,
    folder: StateFolder,
    sockets: Mapping[ListenerName, socket.socket],
    sources: Sources,
    request_log: RequestLog,
    *,
    recovery_only: bool,
    ready: Callable[[], None],
) -> None:
    metrics = Metrics()
    storage = await Storage.open(
        settings.database_url,
        node=settings.node,
        audit_file=folder.audit_file,
        recovery_only=recovery_only,
        limits=database.limits(settings),
        on_commit=metrics.committed,
    )
    try:
        apis = [await _coordinator(settings, folder, storage, sources)]
        pages = document_pages({"coordinator": coordinator_document()})
        pages["/metrics"] = metrics_page(metrics.render)
        bound = [Bound(Listener(name, apis, pages, metrics, request_log), opened) for name, opened in sockets.items()]
        _leave_to_reference_counts()
        # Told once `serve` has taken over the signals: whoever reads it may send one at once.
        asyncio.get_running_loop().call_soon(ready)
        await serve(bound)
    finally:
        await storage.close()
        request_log.flush()


def _leave_to_reference_counts() -> None:
    """Make the garbage collector a rare guest: a request makes no cycles, and what start-up made stays for good.

    With its usual thresholds it walked all of that again and again, which the slowest requests paid for.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


async def _coordinator(settings: Settings, folder: StateFolder, storage: Storage, sources: Sources) -> Api:
    connections = {name: each.model_dump(by_alias=True) for name, each in settings.connections.items()}
    deployment = Deployment(storage.workflows, connections)
    await deployment.load()
    return coordinator_api(App(storage, deployment), sources, folder.read_secret(folder.operator_token))
