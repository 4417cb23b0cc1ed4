"""Packages of workflows: their snapshots, which one is active, and the definitions retained by id and version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson
import rfc8785
import sqlalchemy as sa

from storage.committer import one_by_one
from storage.readers import Readers
from storage.statements import table
from storage.tables import DefinitionRow, PackageDefinitionRow, PackageRow, SwitchRow
from storage.transaction import Transaction
from storage.writer import Writer

PACKAGES, HELD_BY, RETAINED = table(PackageRow), table(PackageDefinitionRow), table(DefinitionRow)
SWITCHES = table(SwitchRow)


@dataclass(frozen=True, slots=True)
class Definition:
    """One workflow of a package: its id and version, and the digest of what they stand for."""

    workflow_id: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """The active package; `redefined` are its definitions whose id and version are retained with another digest."""

    digest: str
    snapshot: str
    applied_at: int
    redefined: tuple[Definition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A stored package without its snapshot; `applied_at` is when it was last made the active one."""

    digest: str
    applied_at: int
    active: bool
    definitions: tuple[Definition, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """This package is the active one since `applied_at` (epoch milliseconds)."""

    digest: str
    applied_at: int


@dataclass(frozen=True, slots=True)
class DefinitionConflict:
    """Nothing was applied: these definitions are retained with another digest."""

    definitions: tuple[Definition, ...]


@dataclass(frozen=True, slots=True)
class _Application:
    digest: str
    snapshot: str
    definitions: tuple[Definition, ...]
    force: bool


class Workflows:
    """Every method raises Unavailable and Overloaded; apply raises AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def active(self) -> Activation | None:
        """The active package, None before the first apply."""
        return await self._readers.read(_active)

    async def apply(
        self, digest: str, snapshot: str, definitions: Sequence[Definition], *, force: bool = False
    ) -> Applied | DefinitionConflict:
        """Store a package under its digest and make it the active one; one that is active already stays as it is.

        With `force` a definition that is retained with another digest does not refuse the package; the retained one
        stays.
        """
        application = _Application(digest, snapshot, tuple(definitions), force)
        return await self._writer.submit(_apply_many, application)

    async def list(self) -> list[Package]:
        """Every stored package, the latest applied first."""
        return await self._readers.read(_packages)

    async def definition(self, digest: str) -> str | None:
        """The canonical JSON of the definition with this digest, None where no stored package has it."""
        return await self._readers.read(lambda connection: _definition(connection, digest))


def _active(connection: sa.Connection) -> Activation | None:
    row = connection.execute(sa.select(PACKAGES).join(SWITCHES, SWITCHES.c.package_digest == PACKAGES.c.digest)).first()
    if row is None:
        return None
    definitions = _definitions(connection)[row.digest]
    return Activation(
        digest=row.digest,
        snapshot=row.snapshot,
        applied_at=row.applied_at,
        redefined=_redefined(connection, definitions),
    )


def _definition(connection: sa.Connection, digest: str) -> str | None:
    holding = sa.select(PACKAGES.c.snapshot, HELD_BY.c.workflow_id).join(
        HELD_BY, HELD_BY.c.package_digest == PACKAGES.c.digest
    )
    row = connection.execute(holding.where(HELD_BY.c.digest == digest).order_by(PACKAGES.c.applied_at.desc())).first()
    if row is None:
        return None
    held = orjson.loads(row.snapshot).get("workflows", [])
    return next((rfc8785.dumps(each).decode() for each in held if each["id"] == row.workflow_id), None)


def _packages(connection: sa.Connection) -> list[Package]:
    active = connection.scalar(sa.select(SWITCHES.c.package_digest))
    definitions = _definitions(connection)
    latest_first = sa.select(PACKAGES.c.digest, PACKAGES.c.applied_at).order_by(PACKAGES.c.applied_at.desc())
    return [
        Package(
            digest=row.digest,
            applied_at=row.applied_at,
            active=row.digest == active,
            definitions=definitions[row.digest],
        )
        for row in connection.execute(latest_first)
    ]


def _definitions(connection: sa.Connection) -> dict[str, tuple[Definition, ...]]:
    """The definitions of every package, by the package's digest."""
    found: dict[str, tuple[Definition, ...]] = defaultdict(tuple)
    for row in connection.execute(sa.select(HELD_BY).order_by(HELD_BY.c.workflow_id)):
        found[row.package_digest] += (Definition(row.workflow_id, row.version, row.digest),)
    return found


def _redefined(connection: sa.Connection, definitions: Iterable[Definition]) -> tuple[Definition, ...]:
    retained = {(row.workflow_id, row.version): row.digest for row in connection.execute(sa.select(RETAINED))}
    return tuple(
        definition
        for definition in definitions
        if retained.get((definition.workflow_id, definition.version), definition.digest) != definition.digest
    )


def _apply(transaction: Transaction, application: _Application) -> Applied | DefinitionConflict:
    connection = transaction.connection
    redefined = _redefined(connection, application.definitions)
    if redefined and not application.force:
        return DefinitionConflict(redefined)
    if transaction.switches.package_digest == application.digest:
        applied_at = sa.select(PACKAGES.c.applied_at).where(PACKAGES.c.digest == application.digest)
        return Applied(application.digest, connection.execute(applied_at).scalar_one())
    _store(transaction, application)
    connection.execute(SWITCHES.update().values(package_digest=application.digest))
    transaction.reread()
    told: dict[str, object] = {"forced": bool(redefined), "workflows": len(application.definitions)}
    transaction.record("package.applied", application.digest, told)
    return Applied(application.digest, transaction.now)


_apply_many = one_by_one(_apply)


def _store(transaction: Transaction, application: _Application) -> None:
    """Store what is not yet there; a package that was applied before has the same content under the same digest."""
    connection = transaction.connection
    again = PACKAGES.update().where(PACKAGES.c.digest == application.digest).values(applied_at=transaction.now)
    if connection.execute(again).rowcount:
        return
    connection.execute(
        PACKAGES.insert().values(digest=application.digest, snapshot=application.snapshot, applied_at=transaction.now)
    )
    retained = {(row.workflow_id, row.version) for row in connection.execute(sa.select(RETAINED))}
    for definition in application.definitions:
        named = {"workflow_id": definition.workflow_id, "version": definition.version, "digest": definition.digest}
        connection.execute(HELD_BY.insert().values(package_digest=application.digest, **named))
        if (definition.workflow_id, definition.version) not in retained:
            connection.execute(RETAINED.insert().values(**named))
