"""The rows of execution, read as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final
from uuid import UUID

import orjson
import sqlalchemy as sa

from storage.execution.records import Attempt, Command, StepResult
from storage.statements import table
from storage.tables import AttemptRow, ClaimRow, CommandRow, ExecutorRow, OutboxRow, RunRow, StepRow

RUNS: Final = table(RunRow)
OUTBOX: Final = table(OutboxRow)
CLAIMS: Final = table(ClaimRow)
EXECUTORS: Final = table(ExecutorRow)
STEPS: Final = table(StepRow)
COMMANDS: Final = table(CommandRow)
ATTEMPTS: Final = table(AttemptRow)

_ATTEMPT: Final = [field.name for field in fields(Attempt)]
_COMMAND: Final = [field.name for field in fields(Command)]

# These are read so often that they are built once.
_COMMAND_OF: Final = sa.select(*(COMMANDS.c[name] for name in _COMMAND)).where(
    COMMANDS.c.run_id == sa.bindparam("of_run"), COMMANDS.c.step == sa.bindparam("of_step")
)
_ATTEMPTS_OF: Final = (
    sa.select(ATTEMPTS.c.step, *(ATTEMPTS.c[name] for name in _ATTEMPT))
    .where(ATTEMPTS.c.run_id == sa.bindparam("of_run"))
    .order_by(ATTEMPTS.c.number)
)
_ATTEMPTS_AT: Final = _ATTEMPTS_OF.where(ATTEMPTS.c.step == sa.bindparam("of_step"))
# A choice and the end of a run leave nothing that a mapping could read.
_RESULTS_OF: Final = sa.select(STEPS.c.step, STEPS.c.status, STEPS.c.body, STEPS.c.ended_at).where(
    STEPS.c.run_id == sa.bindparam("of_run"),
    STEPS.c.state == "completed",
    STEPS.c.type.in_(("call", "wait-until")),
)


def command_of(connection: sa.Connection, run_id: UUID, step: str) -> Command | None:
    """The command that was prepared for a step."""
    row = connection.execute(_COMMAND_OF, {"of_run": run_id, "of_step": step}).first()
    if row is None:
        return None
    headers = tuple((name, value) for name, value in orjson.loads(row.headers))
    return Command(**{**row._mapping, "headers": headers})


def command_values(command: Command) -> dict[str, Any]:
    """A command as a row holds it."""
    values = {name: getattr(command, name) for name in _COMMAND}
    return values | {"headers": orjson.dumps(command.headers).decode()}


def attempts_of(connection: sa.Connection, run_id: UUID) -> Mapping[str, tuple[Attempt, ...]]:
    """The attempts of a run by step, each in their order."""
    found: dict[str, list[Attempt]] = {}
    for row in connection.execute(_ATTEMPTS_OF, {"of_run": run_id}):
        found.setdefault(row.step, []).append(_attempt(row))
    return {step: tuple(attempts) for step, attempts in found.items()}


def attempts_at(connection: sa.Connection, run_id: UUID, step: str) -> tuple[Attempt, ...]:
    """The attempts of one step in their order."""
    return tuple(map(_attempt, connection.execute(_ATTEMPTS_AT, {"of_run": run_id, "of_step": step})))


def results_of(connection: sa.Connection, run_id: UUID) -> Mapping[str, StepResult]:
    """What the completed calls and waits of a run left, by step."""
    rows = connection.execute(_RESULTS_OF, {"of_run": run_id})
    return {row.step: StepResult(row.status, row.body, row.ended_at) for row in rows}


def _attempt(row: sa.Row[Any]) -> Attempt:
    return Attempt(**{name: row._mapping[name] for name in _ATTEMPT})
