"""Packages of workflows: their snapshots, which one is active, and the definitions retained by id and version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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


class Workflows:
    """Every method raises Unavailable; apply raises Overloaded and AuditUnavailable too."""

    async def active(self) -> Activation | None:
        """The active package, None before the first apply."""
        raise NotImplementedError

    async def apply(
        self, digest: str, snapshot: str, definitions: Sequence[Definition], *, force: bool = False
    ) -> Applied | DefinitionConflict:
        """Store a package under its digest and make it the active one; one that is active already stays as it is.

        With `force` a definition that is retained with another digest does not refuse the package; the retained one
        stays.
        """
        raise NotImplementedError

    async def list(self) -> list[Package]:
        """Every stored package, the latest applied first."""
        raise NotImplementedError
