"""Runs: begun by key, read newest first, inspected, cancelled; execution/ carries them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

import sqlalchemy as sa

from storage.admission import Births, NewRun, RunStatements
from storage.committer import one_by_one
from storage.execution.progress import Progress
from storage.execution.records import Attempt, FailureCode, Recovery, StepType
from storage.execution.rows import STEPS, attempts_of, command_of
from storage.identifiers import parse
from storage.readers import Readers
from storage.refusals import Refusal, Refused
from storage.statements import table
from storage.tables import RunRow, StartRow
from storage.transaction import Transaction
from storage.writer import Writer

RunState: TypeAlias = Literal["admitted", "running", "waiting", "uncertain", "completed", "failed", "cancelled"]
StepState: TypeAlias = Literal["running", "waiting", "uncertain", "completed", "failed", "cancelled"]

RUNS, STARTS = table(RunRow), table(StartRow)

_ENDED: Final = ("completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run as it stands; times are epoch milliseconds, `output` is JSON text, None is what is not known."""

    run_id: str
    workflow_id: str
    workflow_version: str
    definition_digest: str
    binding_digest: str
    step: str | None
    state: RunState
    admitted_at: int
    deadline_at: int
    next_due_at: int | None
    uncertain: bool
    cancel_requested: bool
    restore_review_required: bool
    outcome: str | None
    output: str | None
    failure_code: FailureCode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step that a run has reached."""

    step: str
    type: StepType
    state: StepState
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A run with the steps it has reached, and how the call recovers that is uncertain or to be tried again."""

    run: Run
    steps: tuple[Step, ...]
    recovery: Recovery | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A request to begin a run by hand; its identity is the idempotency key alone.

    `request_digest` is the `sha256:` digest of what must be equal for a repeat. The other members are those of
    Candidate; `fault` may be WORKFLOW_NOT_SERVED or INPUT_INVALID.
    """

    workflow: str
    idempotency_key: str
    request_digest: str
    run: NewRun | None
    activation: str | None
    fault: Refused | None = None
    conflict: Refused | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The run of this key, as it stands now; `new` is False for a repeat."""

    run: Run
    new: bool


class Runs:
    """Every method raises Unavailable and Overloaded; those that write raise AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers, statements: RunStatements, *, recovery_only: bool) -> None:
        self._writer = writer
        self._readers = readers
        self._statements = statements
        self._recovery_only = recovery_only

    async def start(self, start: Start) -> Started | Refused:
        """Begin a run exactly once by its key; returns after the commit is durable."""
        return await self._writer.submit(self._start_many, start)

    async def get(self, run_id: str) -> Run | None:
        """The run of this id; None where there is none, also for text that is no UUID."""
        found = parse(run_id)
        return None if found is None else await self._readers.read(lambda connection: _get(connection, found))

    async def list(self, *, limit: int, state: RunState | None = None, before: str | None = None) -> list[Run]:
        """At most `limit` runs, newest first, those older than the run id `before` (which need not exist).

        Raises ValueError where `before` is no UUID.
        """
        query = _selection().order_by(RUNS.c.run_id.desc()).limit(limit)
        if state is not None:
            query = query.where(RUNS.c.state == state)
        if before is not None:
            query = query.where(RUNS.c.run_id < UUID(before))
        return await self._readers.read(lambda connection: [_run(row) for row in connection.execute(query)])

    async def inspect(self, run_id: str) -> Inspection | None:
        """The run of this id with its steps; None as for get."""
        found = parse(run_id)
        return None if found is None else await self._readers.read(lambda connection: _inspect(connection, found))

    async def cancel(self, run_id: str, reason: str) -> Run | None:
        """Cancel a run and return it as it then stands; None as for get.

        An ended run comes back unchanged. Of one that an executor has in hand the wish is noted in `cancel_requested`,
        and it ends when the attempt under way has ended; any other becomes `cancelled` at once.
        """
        found = parse(run_id)
        return None if found is None else await self._writer.submit(_cancel_many, (found, reason))

    def _start_many(self, transaction: Transaction, starts: Sequence[Start]) -> Sequence[Started | Refused]:
        return [self._start(transaction, start) for start in starts]

    def _start(self, transaction: Transaction, start: Start) -> Started | Refused:
        connection = transaction.connection
        known = connection.execute(sa.select(STARTS).where(STARTS.c.idempotency_key == start.idempotency_key)).first()
        if known is not None:
            if known.request_digest != start.request_digest:
                return Refused(Refusal.KEY_REUSED)
            return Started(one_run(connection, known.run_id), new=False)
        births = Births(transaction, self._statements, recovery_only=self._recovery_only)
        births.foresee([start])
        decided = births.decide(start)
        if isinstance(decided, Refused):
            return decided
        run_id = UUID(births.add(start.workflow, decided))
        births.write()
        connection.execute(
            STARTS.insert().values(
                idempotency_key=start.idempotency_key, request_digest=start.request_digest, run_id=run_id
            )
        )
        transaction.record(
            "run.started", str(run_id), {"requestDigest": start.request_digest, "workflow": start.workflow}
        )
        return Started(one_run(connection, run_id), new=True)


def _cancel(transaction: Transaction, wish: tuple[UUID, str]) -> Run | None:
    connection, (run_id, reason) = transaction.connection, wish
    run = _get(connection, run_id)
    if run is None or run.cancel_requested or run.state in _ENDED:
        return run
    connection.execute(RUNS.update().where(RUNS.c.run_id == run_id).values(cancel_requested=True))
    told: dict[str, object] = {"reason": reason, "state": run.state}
    if run.state == "running":
        transaction.record("run.cancel-requested", str(run_id), told)
    else:
        Progress.one(transaction, run_id).cancel(told)
    return one_run(connection, run_id)


_cancel_many = one_by_one(_cancel)


def _selection() -> sa.Select[Any]:
    return sa.select(*(RUNS.c[field.name] for field in fields(Run)))


def _get(connection: sa.Connection, run_id: UUID) -> Run | None:
    row = connection.execute(_selection().where(RUNS.c.run_id == run_id)).first()
    return None if row is None else _run(row)


def one_run(connection: sa.Connection, run_id: UUID) -> Run:
    """A run that is there."""
    return _run(connection.execute(_selection().where(RUNS.c.run_id == run_id)).one())


def _inspect(connection: sa.Connection, run_id: UUID) -> Inspection | None:
    run = _get(connection, run_id)
    if run is None:
        return None
    attempts = attempts_of(connection, run_id)
    # Which type a step has is not known before an executor has read the definition.
    reached = sa.select(STEPS.c.step, STEPS.c.type, STEPS.c.state).where(
        STEPS.c.run_id == run_id, STEPS.c.type.is_not(None)
    )
    steps = tuple(
        Step(step=row.step, type=row.type, state=row.state, attempts=attempts.get(row.step, ()))
        for row in connection.execute(reached.order_by(STEPS.c.place))
    )
    return Inspection(run, steps, _recovery(connection, run_id, run))


def _recovery(connection: sa.Connection, run_id: UUID, run: Run) -> Recovery | None:
    """How the present step recovers, where it is a call that is uncertain or waits to be tried again."""
    if run.step is None or run.state not in ("waiting", "uncertain"):
        return None
    command = command_of(connection, run_id, run.step)
    return None if command is None else command.recovery


def _run(row: sa.Row[Any]) -> Run:
    return Run(**{**row._mapping, "run_id": str(row.run_id)})
