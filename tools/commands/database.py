"""The database of a state folder as commands use it: migrated, opened, closed, its faults told as a command's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from storage import migrations
from storage.database import Limits, Storage
from storage.errors import AuditUnavailable, Broken, Overloaded, SchemaOutOfDate, Unavailable
from tools.commands.terminal import RefusedError, UnreachableError
from tools.settings import Settings
from tools.state import StateFolder

ResultT = TypeVar("ResultT")


def run(folder: StateFolder, settings: Settings, work: Callable[[Storage], Awaitable[ResultT]]) -> ResultT:
    """Open the storage, do `work` with it and close it; RefusedError and UnreachableError tell what storage raised."""
    with told():
        return asyncio.run(_run(folder, settings, work))


async def _run(folder: StateFolder, settings: Settings, work: Callable[[Storage], Awaitable[ResultT]]) -> ResultT:
    storage = await Storage.open(
        settings.database_url, node=settings.node, audit_file=folder.audit_file, limits=limits(settings)
    )
    try:
        return await work(storage)
    finally:
        await storage.close()


def migrate(settings: Settings, *, also_postgresql: bool) -> None:
    """Bring the schema to what this version needs: on SQLite always, on PostgreSQL where that was asked for.

    Raises RefusedError and UnreachableError.
    """
    if also_postgresql or settings.database_url.startswith("sqlite:"):
        with told():
            migrations.upgrade(settings.database_url, busy_milliseconds=settings.limits.busy_milliseconds)


def limits(settings: Settings) -> Limits:
    """Return the limits of storage that the settings name."""
    return Limits(**settings.limits.model_dump())


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Tell what storage raises as a command's fault."""
    try:
        yield
    except (Broken, SchemaOutOfDate, AuditUnavailable) as error:
        raise RefusedError(str(error)) from None
    except (Unavailable, Overloaded) as error:
        raise UnreachableError(f"the database does not answer: {error}") from None
