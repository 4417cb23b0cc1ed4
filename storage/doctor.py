"""One reading of how the whole stands, for the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import sqlalchemy as sa

from storage.holds import HoldState, hold_state
from storage.readers import Readers
from storage.runs import RUNS, RunState
from storage.workflows import PACKAGES, SWITCHES


@dataclass(frozen=True, slots=True)
class ActivePackage:
    """The active package's digest and since when (epoch milliseconds)."""

    digest: str
    applied_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`runs` counts every state, also those at zero; `backlog` is the new runs that no executor has taken.

    `uncertain` counts the live runs of which something is not known, also where recovery is at work on it.
    """

    holds: HoldState
    activation: ActivePackage | None
    runs: Mapping[RunState, int]
    oldest_due_at: int | None
    uncertain: int
    backlog: int


class Doctor:
    """Reads only."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def report(self) -> Report:
        """All figures from one snapshot of the database; raises Unavailable and Overloaded."""
        return await self._readers.read(_report)


def _report(connection: sa.Connection) -> Report:
    counted = connection.execute(sa.select(RUNS.c.state, sa.func.count().label("runs")).group_by(RUNS.c.state))
    due = sa.select(sa.func.min(RUNS.c.next_due_at)).where(RUNS.c.next_due_at.is_not(None))
    runs: dict[RunState, int] = dict.fromkeys(get_args(RunState), 0) | {row.state: row.runs for row in counted}
    uncertain = sa.select(sa.func.count()).select_from(RUNS).where(RUNS.c.uncertain, RUNS.c.ended_at.is_(None))
    return Report(
        holds=hold_state(connection),
        activation=_activation(connection),
        runs=runs,
        oldest_due_at=connection.scalar(due),
        uncertain=connection.execute(uncertain).scalar_one(),
        backlog=runs["admitted"],
    )


def _activation(connection: sa.Connection) -> ActivePackage | None:
    row = connection.execute(
        sa.select(PACKAGES.c.digest, PACKAGES.c.applied_at).join(
            SWITCHES, SWITCHES.c.package_digest == PACKAGES.c.digest
        )
    ).first()
    return None if row is None else ActivePackage(row.digest, row.applied_at)
