"""Work for the tests of storage to do: a package, candidates for admission, and an open storage."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from storage.connections import engine
from storage.database import Limits, Storage
from storage.events import Admitted, Candidate, NewRun, Outcome
from storage.runs import Start
from storage.workflows import Definition

NODE = "local"


def digest(text: str) -> str:
    """A digest in its wire form."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass(frozen=True)
class Package:
    digest: str
    snapshot: str
    definitions: tuple[Definition, ...]


PACKAGE = Package(
    digest("package"), '{"case-follow-up":{}}', (Definition("case-follow-up", "1", digest("definition")),)
)
OTHER_PACKAGE = Package(digest("other"), '{"other":{}}', (Definition("other", "1", digest("other definition")),))

NEW_RUN = NewRun(
    workflow_version="1",
    definition_digest=digest("definition"),
    binding_digest=digest("binding"),
    input='{"caseId":"C-1"}',
    deadline_seconds=3600,
    first_step="wait",
)


def new_run(**changes: Any) -> NewRun:
    """NEW_RUN with other members."""
    return NEW_RUN._replace(**changes)


def candidate(**changes: Any) -> Candidate:
    """A fresh event that may be admitted; `changes` replace members."""
    event_id = uuid.uuid4().hex
    made = Candidate(
        workflow="case-follow-up",
        trigger="case-created",
        source="urn:gatehouse:demo",
        event_id=event_id,
        idempotency_key=f"key-{event_id}",
        event_digest=digest(event_id),
        run=NEW_RUN,
        activation=PACKAGE.digest,
    )
    return made._replace(**changes)


def start(**changes: Any) -> Start:
    """A fresh request to begin a run by hand; `changes` replace members."""
    key = uuid.uuid4().hex
    made = Start(
        workflow="case-follow-up",
        idempotency_key=key,
        request_digest=digest(key),
        run=NEW_RUN,
        activation=PACKAGE.digest,
    )
    return replace(made, **changes)


@contextlib.asynccontextmanager
async def open_storage(
    url: str,
    audit_file: Path,
    *,
    node: str = NODE,
    recovery_only: bool = False,
    limits: Limits | None = None,
    on_commit: Callable[[int], None] | None = None,
    pace_seconds: float = 0,
) -> AsyncIterator[Storage]:
    """Storage for as long as the block runs."""
    storage = await Storage.open(
        url,
        node=node,
        audit_file=audit_file,
        recovery_only=recovery_only,
        limits=limits,
        on_commit=on_commit,
        pace_seconds=pace_seconds,
    )
    try:
        yield storage
    finally:
        await storage.close()


async def admit(storage: Storage, **changes: Any) -> Admitted:
    """Admit a fresh event, which must not be refused."""
    outcome = await storage.admissions.admit(candidate(**changes))
    assert isinstance(outcome, Admitted)
    return outcome


async def at_once(storage: Storage, *candidates: Candidate) -> list[Outcome]:
    """Admit all in one batch, since they are submitted in one turn of the loop."""
    return list(await asyncio.gather(*map(storage.admissions.admit, candidates)))


def rows(url: str, of: sa.Table) -> list[Any]:
    """All rows of a table in the order of its key, read by a connection of its own."""
    reading = engine(url, "read")
    try:
        with reading.connect() as connection, connection.begin():
            return list(connection.execute(sa.select(of).order_by(*of.primary_key.columns)))
    finally:
        reading.dispose()


# Plain files, small ones: a test may read them in the loop.
def size(path: Path) -> int:
    return path.stat().st_size


def move(path: Path, suffix: str) -> None:
    path.rename(path.with_suffix(suffix))


def text(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def contents(folder: Path) -> list[Path]:
    """What a folder holds, in the order of the names."""
    return sorted(folder.iterdir())
