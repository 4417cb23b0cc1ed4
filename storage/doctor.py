"""One reading of how the whole stands, for the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from storage.holds import HoldState
from storage.runs import RunState


@dataclass(frozen=True, slots=True)
class ActivePackage:
    """The active package's digest and since when (epoch milliseconds)."""

    digest: str
    applied_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`runs` counts every state, also those at zero; `backlog` is the outbox rows that no executor has taken."""

    holds: HoldState
    activation: ActivePackage | None
    runs: Mapping[RunState, int]
    oldest_due_at: int | None
    uncertain: int
    backlog: int


class Doctor:
    """Reads only."""

    async def report(self) -> Report:
        """All figures from one snapshot of the database; raises Unavailable."""
        raise NotImplementedError
