"""The engine: DBOS, which carries the body of each claim and takes up again what a crash cut off.

It may forget, lag behind or carry a body twice: whether a body does anything, the claim in storage decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, Serializer, SetWorkflowID

from storage.errors import StorageError
from storage.execution.records import Claim

log = logging.getLogger("gatehouse.engine")

SCHEMA: Final = "gatehouse_engine"
# By default DBOS would hash the source of a body, and leave behind what another version of it began.
_VERSION: Final = "1"
_CONNECTIONS: Final = 8
_BUSY_MILLISECONDS: Final = 30_000
_LOOK_SECONDS: Final = 0.02
_FORGOTTEN_AT_ONCE: Final = 500

# Takes a run one step further; whether it goes on in this claim.
Stride: TypeAlias = Callable[[Claim], Awaitable[bool]]


class _Json(Serializer):
    """What the engine stores of a body: its claim, and what each stride said. By default it would be a pickle."""

    def name(self) -> str:
        return "gatehouse-json"

    def serialize(self, data: Any) -> str:
        return json.dumps(data, default=repr)

    def deserialize(cls, serialized_data: str) -> Any:  # noqa: N805 - so it is called in the class above
        return json.loads(serialized_data)


class Engine:
    """The only one of its process, in whose loop it has to be launched and used.

    `store` is its database, which is closed with it. `on_end` is called whenever a body has ended.
    """

    def __init__(self, store: sa.Engine, stride: Stride, *, executor: str) -> None:
        self._store = store
        self._stride = stride
        self._carried: set[Claim] = set()
        self._closing = False
        self.on_end: Callable[[], None] = lambda: None
        # With a handler of its own it makes no other, and its records go the way of all others.
        logging.getLogger("dbos").addHandler(logging.NullHandler())
        # Each executor is an application to DBOS, or one would take up the bodies of another.
        DBOS(config=_config(store, executor))
        self._body = DBOS.workflow(name="carry_out")(self._carry_out_claim())

    @property
    def carried(self) -> Collection[Claim]:
        """The claims whose bodies are under way in this process."""
        return self._carried

    def launch(self) -> None:
        """Bring the store to its schema and take up what was under way; raises what its database raises."""
        DBOS.launch()

    async def start(self, claim: Claim) -> None:
        """Let a body carry the claim, unless the engine says that one has done so already."""
        with SetWorkflowID(f"{claim.run_id}:{claim.seq}"):
            await DBOS.start_workflow_async(self._body, claim.run_id, claim.seq)

    async def forget(self) -> None:
        """Delete the bodies that have ended from the store."""
        while ended := await DBOS.list_workflows_async(
            status=["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"],
            limit=_FORGOTTEN_AT_ONCE,
            load_input=False,
            load_output=False,
        ):
            await DBOS.delete_workflows_async([each.workflow_id for each in ended])

    async def close(self, *, patience_seconds: float) -> None:
        """Let no body begin another stride, wait for the strides under way, but not longer than that, and close all.

        Where a stride goes on longer, all is left as it is: its process is about to end.
        """
        self._closing = True
        for _ in range(round(patience_seconds / _LOOK_SECONDS)):
            if not self._carried:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        else:
            return
        # DBOS has made its threads the loop's, and is about to end them.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)
        self._store.dispose()

    def _carry_out_claim(self) -> Callable[[str, int], Coroutine[Any, Any, None]]:
        # A function: of a method, DBOS would store the object.
        async def carry_out(run_id: str, seq: int) -> None:
            claim = Claim(run_id, seq)
            self._carried.add(claim)
            try:
                while not self._closing and await DBOS.run_step_async({"name": "stride"}, self._strode, run_id, seq):
                    pass
            finally:
                self._carried.discard(claim)
                self.on_end()

        return carry_out

    async def _strode(self, run_id: str, seq: int) -> bool:
        """Do one stride; one that fails ends the body, whose claim stands and is found by who looks for such."""
        try:
            return await self._stride(Claim(run_id, seq))
        except StorageError as error:
            log.warning("a run is left for now: %s", error, extra={"run": run_id})
        except Exception as error:
            log.error("a stride failed", exc_info=error, extra={"run": run_id})
        return False


def store(database_url: str, file: Path) -> sa.Engine:
    """Return the engine's database: the SQLite file `file`, or a schema of `database_url` where that is PostgreSQL's.

    Its commits do not wait for the disk. What a power cut takes of them is found again by the claims.
    """
    if database_url.startswith("postgresql:"):
        return sa.create_engine(
            sa.make_url(database_url).set(drivername="postgresql+psycopg"),
            connect_args={
                "options": "-c synchronous_commit=off -c idle_in_transaction_session_timeout=60000",
                "connect_timeout": 2,
                "application_name": "gatehouse-engine",
            },
            pool_size=_CONNECTIONS,
            max_overflow=0,
            pool_pre_ping=True,
            hide_parameters=True,
        )
    _discard_if_broken(file)
    file.touch(mode=0o600)
    made = sa.create_engine(
        sa.URL.create("sqlite", database=str(file.absolute())),
        pool_size=_CONNECTIONS,
        max_overflow=0,
        hide_parameters=True,
    )

    @sa.event.listens_for(made, "connect")
    def _connect(connection: Any, _: object) -> None:
        connection.isolation_level = "IMMEDIATE"
        for setting in (f"busy_timeout={_BUSY_MILLISECONDS}", "journal_mode=WAL", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {setting}")

    return made


def _discard_if_broken(file: Path) -> None:
    """Remove a damaged store: the claims say all that it said, and one that cannot be opened would carry nothing."""
    if not file.exists():
        return
    try:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            [[found]] = connection.execute("PRAGMA quick_check(1)")
    except sqlite3.OperationalError:
        # It is locked or cannot be read now, which is no damage.
        return
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        log.error("the engine's store is damaged and made anew: %s", found)
        for suffix in ("", "-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)


def _config(store: sa.Engine, executor: str) -> DBOSConfig:
    return {
        "name": f"gatehouse-{executor}",
        "system_database_engine": store,
        "dbos_system_schema": SCHEMA,
        # A version belongs to one application.
        "application_version": f"{_VERSION}-{executor}",
        "executor_id": executor,
        "serializer": _Json(),
        "log_level": "WARNING",
        # Nothing waits for messages, and nothing is scheduled. What would look for the former looks at no table then,
        # but sleeps so long before it sees that it has to end.
        "use_listen_notify": False,
        "notification_listener_polling_interval_sec": 0.25,
        "scheduler_polling_interval_sec": 3600.0,
    }
