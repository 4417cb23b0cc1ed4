"""The executor's process: carries runs out until its standard input, on which a byte wakes it, is closed."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import random
import re
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

import uvloop

from handlers.coordinator.definitions import Definitions
from handlers.coordinator.execution.caller import Caller
from handlers.coordinator.execution.carrier import Carrier
from handlers.coordinator.execution.caution import Caution
from handlers.coordinator.execution.connection import connections
from handlers.coordinator.execution.dispatcher import Dispatcher
from handlers.coordinator.execution.engine import Engine, store
from handlers.gateway.outlet import outlet
from handlers.gateway.telemetry import configure_logging
from handlers.gateway.times import now_milliseconds
from storage.database import Limits, Storage
from storage.errors import StorageError
from tools.keeper import kept
from tools.settings import Settings, load
from tools.settingsfile import SettingsError
from tools.state import SECRET, HeldError, StateError, StateFolder, hold, replace

log = logging.getLogger("gatehouse.executor")

# Between two commits, while there is more to commit: whoever admits events needs the database's lock more.
PACE_SECONDS: Final = 0.01
# What runs cost admission is first of all the processor.
NICENESS: Final = 10
# So long the calls under way may take when the process is to end.
REST_SECONDS: Final = 1.0
# So long the process lives at most from then on, whatever hangs: the executor of the next server waits for its end.
END_SECONDS: Final = 3
_LOOK_SECONDS: Final = 0.05
_ID: Final = re.compile(r"[0-9a-f]{16}")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the executor of a state folder and end the process, with 1 where it cannot start or fails."""
    parser = argparse.ArgumentParser(prog="tools.executor")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    given = parser.parse_args(arguments)
    os.umask(0o077)
    with contextlib.ExitStack() as opened:
        stderr = sys.stderr or opened.enter_context(Path(os.devnull).open("w"))
        configure_logging(opened.enter_context(outlet(stderr.fileno())))
        code = _code(StateFolder(given.state), given.config)
    # All is closed that has to be. To take down the interpreter is work, for which a server that stops would wait.
    os._exit(code)


def _code(folder: StateFolder, config: Path | None) -> int:
    try:
        return uvloop.run(_run(folder, load(config or folder.settings_file, folder.database)))
    except (SettingsError, StateError, StorageError) as error:
        log.error("the executor cannot start: %s", error)
        return 1
    except Exception as error:
        log.error("the executor has failed", exc_info=error)
        return 1


async def _run(folder: StateFolder, settings: Settings) -> int:
    stopping = asyncio.Event()
    wakes = _Wakes(stopping)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, wakes.stop)
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), wakes.read)
    async with contextlib.AsyncExitStack() as opened:
        if not await _alone(folder, stopping, opened):
            return 0
        executor = f"{settings.node}-{identity(folder)}"
        storage = await Storage.open(
            settings.database_url,
            node=settings.node,
            audit_file=folder.audit_file,
            limits=Limits(**settings.limits.model_dump()),
            pace_seconds=PACE_SECONDS,
        )
        opened.push_async_callback(storage.close)
        # On Linux this is about the threads that begin from here on. The writer's has begun: if it had to wait for a
        # processor while it has the database's lock, so would admission.
        os.nice(NICENESS)
        caller = Caller()
        opened.push_async_callback(caller.close)
        # None is carried yet: these are what a process before this one had in hand when it died.
        held = await storage.execution.claims.held_by(executor)
        caution = Caution(storage.execution.journal, [claim.run_id for claim in held])
        carrier = Carrier(
            caution,
            Definitions(storage.workflows).workflow,
            connections(settings.called()),
            caller,
            clock=now_milliseconds,
            jitter=random.random,
        )
        engine = Engine(
            store(settings.database_url, folder.engine_database),
            caution.watched(carrier.stride),
            executor=executor,
        )
        opened.push_async_callback(engine.close, patience_seconds=REST_SECONDS)
        engine.launch()
        dispatcher = Dispatcher(
            storage.execution.claims, engine, executor=executor, concurrency=settings.execution.concurrency
        )
        wakes.wake = dispatcher.wake
        dispatching = _Dispatching(dispatcher, wakes.stop)
        async with kept(dispatching.run, stopping):
            await stopping.wait()
        return 1 if dispatching.failed else 0


class _Dispatching:
    """A dispatcher that is run again where storage fails, which comes back; any other failure ends the process.

    It is the engine's: a damaged store is made anew by the next process.
    """

    def __init__(self, dispatcher: Dispatcher, stop: Callable[[], None]) -> None:
        self._dispatcher = dispatcher
        self._stop = stop
        self.failed = False

    async def run(self, stopping: asyncio.Event) -> None:
        try:
            await self._dispatcher.run(stopping)
        except StorageError:
            raise
        except Exception as error:
            log.error("the engine has failed", exc_info=error)
            self.failed = True
            self._stop()


class _Wakes:
    """What comes from the server: bytes, and the end."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self.wake: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """Let the process end."""
        signal.alarm(END_SECONDS)
        self._stopping.set()
        self.wake()

    def read(self) -> None:
        """Take what is there on the standard input."""
        if os.read(sys.stdin.fileno(), 4096):
            self.wake()
        else:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self.stop()


def identity(folder: StateFolder) -> str:
    """Return what is this folder's alone; who calls it holds the lock of the executor."""
    file = folder.executor_id
    known = file.read_text(encoding="ascii", errors="replace").strip() if file.exists() else ""
    if not _ID.fullmatch(known):
        known = secrets.token_hex(8)
        replace(file, f"{known}\n".encode(), SECRET)
    return known


async def _alone(folder: StateFolder, stopping: asyncio.Event, opened: contextlib.AsyncExitStack) -> bool:
    """Hold the lock of the folder's executor; waits for one that outlives the server which was killed."""
    while not stopping.is_set():
        with contextlib.suppress(HeldError):
            opened.enter_context(hold(folder.lock_file("executor"), "another executor has not ended yet"))
            return True
        await asyncio.sleep(_LOOK_SECONDS)
    return False
