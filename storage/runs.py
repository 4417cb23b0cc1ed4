"""Runs: begun by key, read newest first, cancelled; executing them is not done here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from storage.events import NewRun
from storage.refusals import Refused

RunState: TypeAlias = Literal["admitted", "running", "waiting", "uncertain", "completed", "failed", "cancelled"]


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
    failure_code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of a step; times are epoch milliseconds."""

    number: int
    started_at: int
    ended_at: int | None
    result: str | None
    http_status: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step that a run has reached."""

    step: str
    type: str
    state: str
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A run with the steps it has reached; no step is recorded before runs are executed."""

    run: Run
    steps: tuple[Step, ...]


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
    """Every method raises Unavailable; those that write raise Overloaded and AuditUnavailable too."""

    async def start(self, start: Start) -> Started | Refused:
        """Begin a run exactly once by its key; returns after the commit is durable."""
        raise NotImplementedError

    async def get(self, run_id: str) -> Run | None:
        """The run of this id; None where there is none, also for text that is no UUID."""
        raise NotImplementedError

    async def list(self, *, limit: int, state: RunState | None = None, before: str | None = None) -> list[Run]:
        """At most `limit` runs, newest first, those older than the run id `before` (which need not exist).

        Raises ValueError where `before` is no UUID.
        """
        raise NotImplementedError

    async def inspect(self, run_id: str) -> Inspection | None:
        """The run of this id with its steps; None as for get."""
        raise NotImplementedError

    async def cancel(self, run_id: str, reason: str) -> Run | None:
        """Cancel a run and return it as it then stands; None as for get.

        An ended run comes back unchanged, an admitted or waiting one becomes `cancelled`, of any other the wish is
        noted in `cancel_requested`.
        """
        raise NotImplementedError
