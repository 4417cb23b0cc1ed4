"""Puts a server together from its settings and runs it: storage, the APIs, and a listener for each socket."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import uvloop

from handlers.coordinator.api import coordinator_api, coordinator_document
from handlers.coordinator.app import App as CoordinatorApp
from handlers.coordinator.definitions import Definitions
from handlers.coordinator.deployment import Deployment
from handlers.coordinator.execution.caller import Caller
from handlers.coordinator.execution.connection import connections
from handlers.coordinator.sources import Sources
from handlers.gateway.faults import Api
from handlers.gateway.listener import Listener
from handlers.gateway.outlet import outlet
from handlers.gateway.pages import Page, document_pages, metrics_page
from handlers.gateway.pressure import Pressure
from handlers.gateway.server import Bound, serve
from handlers.gateway.telemetry import Metrics, RequestLog, configure_logging
from handlers.installer.api import installer_api, installer_document
from handlers.installer.app import App as InstallerApp
from handlers.installer.feed import Feed
from handlers.installer.job import Job
from handlers.installer.node_yaml import node_yaml
from handlers.join.api import join_api, join_document
from handlers.join.app import App as JoinApp
from handlers.join.identities import Identities
from handlers.join.rafts.etcd import EtcdRaft
from handlers.join.rafts.ledger import LedgerRaft
from handlers.join.rafts.port import Raft
from handlers.join.turns import Turns
from storage import process_writer
from storage.database import Storage
from storage.join.ledger import Ledger
from storage.opening import Place
from storage.process_writer import Child
from tools import settings as chosen
from tools.commands import database
from tools.commands.terminal import UnreachableError
from tools.executor.supervisor import STOP_SECONDS, Supervisor
from tools.keeper import kept
from tools.settings import ListenerName, Settings
from tools.state import StateFolder, signing_authority
from tools.tls import check_authorities, etcd_context, server_context

DOCUMENTS: Final[Mapping[str, Callable[[], bytes]]] = {
    "coordinator": coordinator_document,
    "installer": installer_document,
    "join": join_document,
}
# So long a stopping server waits, when its last connection has ended, for the end of an install and its verdict.
JOB_SECONDS: Final = 2.0
# For the executor, which is killed before.
EXECUTOR_SECONDS: Final = STOP_SECONDS + 1


def run(
    settings: Settings,
    folder: StateFolder,
    sockets: Mapping[ListenerName, socket.socket],
    sources: Sources,
    *,
    recovery_only: bool,
    executor: Sequence[str] | None,
    ready: Callable[[], None],
) -> None:
    """Serve a listener on each of `sockets` until SIGTERM or SIGINT; `ready` is called when the first request can come.

    From then on an executor runs beside it, with the arguments `executor`; None for none.

    Raises what `Storage.open` raises, StateError where a file of the folder is missing or none of its kind,
    SettingsError where a file is that the settings name, and UnreachableError where the process that commits ended.
    """
    place = Place(
        url=settings.database_url,
        node=settings.node,
        audit_file=folder.audit_file,
        busy_milliseconds=settings.limits.busy_milliseconds,
    )
    child = process_writer.start(place, recovery_only=recovery_only, around=_logging_apart)
    with contextlib.ExitStack() as opened:
        # A process that was started without stderr has no log.
        stderr = sys.stderr or opened.enter_context(Path(os.devnull).open("w"))
        log = opened.enter_context(outlet(stderr.fileno()))
        configure_logging(log)
        request_log = RequestLog(log)
        supervisor = None if executor is None else Supervisor(executor)
        uvloop.run(
            _run(
                settings,
                folder,
                sockets,
                sources,
                request_log,
                place,
                child,
                recovery_only=recovery_only,
                supervisor=supervisor,
                ready=ready,
            )
        )


async def _run(
    settings: Settings,
    folder: StateFolder,
    sockets: Mapping[ListenerName, socket.socket],
    sources: Sources,
    request_log: RequestLog,
    place: Place,
    child: Child,
    *,
    recovery_only: bool,
    supervisor: Supervisor | None,
    ready: Callable[[], None],
) -> None:
    metrics = Metrics()
    serving = asyncio.Event()

    def committed(items: int) -> None:
        metrics.committed(items)
        if supervisor is not None:
            supervisor.wake()

    def lost() -> None:
        # Nothing can be written any more: whoever keeps this server running has to start it anew.
        if serving.is_set():
            signal.raise_signal(signal.SIGTERM)

    def answering() -> None:
        serving.set()
        if storage.writer.closed:
            lost()
            return
        ready()
        if supervisor is not None:
            supervisor.start()

    async with contextlib.AsyncExitStack() as opened:
        opened.callback(request_log.flush)
        storage = await Storage.open_beside(
            place,
            child,
            recovery_only=recovery_only,
            limits=database.limits(settings),
            on_commit=committed,
            on_loss=lost,
        )
        opened.push_async_callback(storage.close)
        rafts = [_raft(each, storage.join.ledger) for each in settings.rafts]
        for raft in rafts:
            opened.push_async_callback(raft.close)
        turns = Turns(storage.join, rafts, timeout_seconds=settings.join.turn_timeout_seconds)
        token = folder.read_secret(folder.operator_token)
        caller = Caller()
        opened.push_async_callback(caller.close)
        coordinator = await _coordinator(settings, storage, sources, token, caller)
        join = _join(settings, folder, storage, rafts, turns, token)
        apis: dict[ListenerName, Sequence[Api]] = {"control": [coordinator, join], "join": [join]}
        stopping = asyncio.Event()
        if "installer" in sockets:
            installs = _installs(settings, folder, storage)
            apis["installer"] = [installer_api(installs, folder.read_secret(folder.install_code))]
            await opened.enter_async_context(kept(installs.job.run, stopping, patience_seconds=JOB_SECONDS))
        pressure = Pressure()
        bound = [
            Bound(
                Listener(
                    name,
                    apis[name],
                    _pages(name, metrics),
                    metrics,
                    request_log,
                    # An installer has one client, and its readers are many.
                    None if name == "installer" else pressure,
                ),
                each,
                server_context(folder, name) if settings.tls(name) else None,
            )
            for name, each in sockets.items()
        ]
        _leave_to_reference_counts()
        if "join" in sockets:
            await opened.enter_async_context(kept(turns.run, stopping))
        if supervisor is not None:
            await opened.enter_async_context(kept(supervisor.run, stopping, patience_seconds=EXECUTOR_SECONDS))
        # Told once `serve` has taken over the signals: whoever reads it may send one at once.
        asyncio.get_running_loop().call_soon(answering)
        await serve(bound, stopping.set)
        if storage.writer.closed:
            raise UnreachableError("the process that commits has ended, and with it this server; the log may say why")


@contextlib.contextmanager
def _logging_apart() -> Iterator[None]:
    """Let the process that commits log as this one does; what both have stays shared as long as neither touches it."""
    _make_the_collector_rare()
    if sys.stderr is None:
        yield
        return
    with outlet(sys.stderr.fileno()) as log:
        configure_logging(log)
        yield


def _leave_to_reference_counts() -> None:
    """Have no garbage collector look at what start-up made: it stays for good."""
    gc.collect()
    _make_the_collector_rare()


def _make_the_collector_rare() -> None:
    """Let the collector come seldom, since a request makes no cycles, and never to what there is.

    With its usual thresholds it walked all of that again and again, which the slowest requests paid for.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


async def _coordinator(settings: Settings, storage: Storage, sources: Sources, token: str, caller: Caller) -> Api:
    check_authorities(settings.connections)
    known = connections(settings.called())
    deployment = Deployment(storage.workflows, known)
    await deployment.load()
    app = CoordinatorApp(storage, deployment, Definitions(storage.workflows), known, caller)
    return coordinator_api(app, sources, token)


def _installs(settings: Settings, folder: StateFolder, storage: Storage) -> InstallerApp:
    feed = Feed(storage.installer.events, comment_seconds=settings.installer.comment_seconds)
    job = Job(storage.installer, feed, folder=folder.path, plan=folder.install_plan, node_yaml=node_yaml)
    return InstallerApp(storage.installer, job, feed)


def _join(
    settings: Settings, folder: StateFolder, storage: Storage, rafts: Sequence[Raft], turns: Turns, token: str
) -> Api:
    app = JoinApp(
        storage=storage,
        authority=signing_authority(folder),
        rafts=rafts,
        turns=turns,
        identities=Identities(storage.join.registrations.identity),
        trusted_proxies=settings.join.trusted_proxies,
    )
    return join_api(app, token)


def _raft(of: chosen.Raft, ledger: Ledger) -> Raft:
    if of.kind == "ledger":
        return LedgerRaft(ledger, of.name, of.peer_port, of.peer_scheme)
    return EtcdRaft(of.name, of.endpoints, of.peer_port, of.peer_scheme, etcd_context(of))


def _pages(listener: ListenerName, metrics: Metrics) -> Mapping[str, Page]:
    """Return the pages beside the operations of a listener."""
    if listener != "control":
        return document_pages({listener: DOCUMENTS[listener]()})
    pages = document_pages({name: document() for name, document in DOCUMENTS.items()})
    return pages | {"/metrics": metrics_page(metrics.render)}
