"""How a run comes to be, whichever door it was asked for at: what may refuse it, and the rows it is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from storage.refusals import Refusal, Refused
from storage.statements import Spelling, table
from storage.tables import OutboxRow, RunRow
from storage.transaction import Transaction


class NewRun(NamedTuple):
    """The run that a new identity would begin; `input` is canonical JSON, `deadline_seconds` count from admission."""

    workflow_version: str
    definition_digest: str
    binding_digest: str
    input: str
    deadline_seconds: int
    first_step: str


class Request(Protocol):
    """What the state is decided on: Candidate and Start both are one."""

    @property
    def workflow(self) -> str: ...
    @property
    def run(self) -> NewRun | None: ...
    @property
    def activation(self) -> str | None: ...
    @property
    def fault(self) -> Refused | None: ...
    @property
    def conflict(self) -> Refused | None: ...


class RunStatements:
    """The SQL over many runs, spelled for one dialect."""

    def __init__(self, spelling: Spelling) -> None:
        runs, outbox = table(RunRow).c, table(OutboxRow).c
        self.runs = spelling.insert(
            [
                runs.run_id,
                runs.workflow_id,
                runs.workflow_version,
                runs.definition_digest,
                runs.binding_digest,
                runs.step,
                runs.input,
                runs.admitted_at,
                runs.deadline_at,
            ],
            {
                runs.state: "'admitted'",
                runs.uncertain: "FALSE",
                runs.cancel_requested: "FALSE",
                runs.restore_review_required: "FALSE",
            },
        )
        self.outbox = spelling.insert([outbox.run_id, outbox.created_at], {outbox.kind: "'admitted'"})
        # Two ranges of an index on (workflow, binding) answer whether there is another binding than the given one.
        self.live = spelling.select(
            [runs.workflow_id, runs.binding_digest],
            "SELECT workflow_id, binding_digest FROM item WHERE"
            " EXISTS (SELECT 1 FROM runs WHERE runs.ended_at IS NULL AND runs.workflow_id = item.workflow_id"
            " AND runs.binding_digest < item.binding_digest)"
            " OR EXISTS (SELECT 1 FROM runs WHERE runs.ended_at IS NULL AND runs.workflow_id = item.workflow_id"
            " AND runs.binding_digest > item.binding_digest)",
        )


class Births:
    """The runs that one transaction begins: decided one after another, written together."""

    def __init__(self, transaction: Transaction, statements: RunStatements, *, recovery_only: bool) -> None:
        self._transaction = transaction
        self._statements = statements
        self._recovery_only = recovery_only
        self._runs: list[object] = []
        self._outbox: list[object] = []
        self._bindings: dict[str, str] = {}
        self._conflicts: set[tuple[str, str]] = set()

    def foresee(self, requests: Iterable[Request]) -> None:
        """Read once, for all requests, which of their workflows have live runs with another binding."""
        pairs = {(request.workflow, request.run.binding_digest) for request in requests if request.run is not None}
        found = self._statements.live.execute(self._transaction.cursor, [value for pair in pairs for value in pair])
        self._conflicts = {(workflow, binding) for workflow, binding in found}

    def decide(self, request: Request) -> NewRun | Refused:
        """The run that a new identity begins, or what refuses it, in the order of ARCHITECTURE.md, steps 7 to 10.

        A process that is not up to date has judged by another package: then what it found in steps 7 to 9 is void.
        """
        switches = self._transaction.switches
        stale = switches.package_digest != request.activation
        if request.fault is not None and not stale:
            return request.fault
        if self._recovery_only:
            return Refused(Refusal.RECOVERY_ONLY)
        if switches.admission_held:
            return Refused(Refusal.HELD)
        if switches.execution_held:
            return Refused(Refusal.EXECUTION_HELD)
        if switches.package_digest is None:
            return Refused(Refusal.DEPLOYMENT_REFUSED)
        if stale:
            return Refused(Refusal.ACTIVATION_CHANGED)
        if request.run is None:
            return Refused(Refusal.DEPLOYMENT_REFUSED)
        return request.conflict or self._live_conflict(request.workflow, request.run.binding_digest) or request.run

    def _live_conflict(self, workflow: str, binding: str) -> Refused | None:
        if (workflow, binding) in self._conflicts or self._bindings.get(workflow, binding) != binding:
            return Refused(Refusal.BINDING_LIVE_CONFLICT)
        return None

    def add(self, workflow: str, run: NewRun) -> str:
        """Begin a run; return its id as 32 hex digits."""
        now = self._transaction.now
        run_id = self._transaction.run_ids.take(now)
        self._bindings[workflow] = run.binding_digest
        self._runs += (
            run_id,
            workflow,
            run.workflow_version,
            run.definition_digest,
            run.binding_digest,
            run.first_step,
            run.input,
            now,
            now + 1000 * run.deadline_seconds,
        )
        self._outbox += (run_id, now)
        return run_id

    def write(self) -> None:
        """Insert the runs and their outbox rows."""
        self._statements.runs.execute(self._transaction.cursor, self._runs)
        self._statements.outbox.execute(self._transaction.cursor, self._outbox)
