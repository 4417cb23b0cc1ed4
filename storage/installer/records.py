"""An attempt as it stands, read from its row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Final

import orjson
import sqlalchemy as sa

from storage.installer.states import AttemptState, StepStatus
from storage.statements import table
from storage.tables import InstallAttemptRow, InstallEventRow, InstallStreamRow

ATTEMPTS: Final = table(InstallAttemptRow)
STREAM: Final = table(InstallStreamRow)
EVENTS: Final = table(InstallEventRow)

# Written out, since SQLite uses a partial index only where the query repeats its condition.
RUNNING: Final = sa.text("install_attempts.state = 'running'")


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step of an attempt; times are epoch milliseconds."""

    name: str
    status: StepStatus
    started_at: int | None
    ended_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt, its steps in the plan's order; times are epoch milliseconds.

    Attempt 0 is idle and stands for none. `last_event_id` is that of the newest event of all attempts, 0 before any.
    """

    attempt: int
    state: AttemptState
    steps: tuple[StepRecord, ...]
    started_at: int | None
    ended_at: int | None
    detail: str | None
    last_event_id: int


NO_ATTEMPT: Final = Attempt(
    attempt=0, state="idle", steps=(), started_at=None, ended_at=None, detail=None, last_event_id=0
)

_LAST_ID = sa.func.coalesce(sa.select(STREAM.c.last_id).scalar_subquery(), 0).label("last_event_id")
_LATEST = (
    sa.select(
        ATTEMPTS.c.attempt,
        ATTEMPTS.c.state,
        ATTEMPTS.c.steps,
        ATTEMPTS.c.started_at,
        ATTEMPTS.c.ended_at,
        ATTEMPTS.c.detail,
        _LAST_ID,
    )
    .order_by(ATTEMPTS.c.attempt.desc())
    .limit(1)
)


def latest(connection: sa.Connection) -> Attempt:
    """The attempt that began last."""
    row = connection.execute(_LATEST).first()
    if row is None:
        return NO_ATTEMPT
    steps, detail = read_steps(row.steps), None if row.detail is None else orjson.loads(row.detail)
    return Attempt(**{**row._mapping, "steps": steps, "detail": detail})


def is_running(connection: sa.Connection) -> bool:
    """Whether an attempt runs."""
    return connection.execute(sa.select(ATTEMPTS.c.attempt).where(RUNNING)).first() is not None


def read_steps(stored: str) -> tuple[StepRecord, ...]:
    """The steps that a row holds."""
    return tuple(StepRecord(*step) for step in orjson.loads(stored))


def write_steps(steps: Iterable[StepRecord]) -> str:
    """Steps as a row holds them."""
    return orjson.dumps([astuple(step) for step in steps]).decode()
