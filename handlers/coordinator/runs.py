"""The tag runs: started by hand, listed, shown, inspected, cancelled. recovery.py has what gets one going again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import orjson

from generated.coordinator import models
from generated.coordinator.operations import cancel_run as cancel_op
from generated.coordinator.operations import get_run as get_op
from generated.coordinator.operations import inspect_run as inspect_op
from generated.coordinator.operations import list_runs as list_op
from generated.coordinator.operations import start_run as start_op
from handlers.coordinator.app import App
from handlers.coordinator.conflicts import CONFLICT_DETAILS
from handlers.coordinator.workflows.active import ActivePackage, input_of_start
from handlers.gateway.times import rfc3339
from storage.refusals import Refusal, Refused
from storage.runs import Run, Start, Step

NO_RUN: Final = "There is no run with this id."

REFUSALS: Final[Mapping[Refusal, Callable[[str], start_op.Problems]]] = {
    Refusal.WORKFLOW_NOT_SERVED: start_op.WorkflowNotServed,
    Refusal.INPUT_INVALID: start_op.InputInvalid,
    Refusal.KEY_REUSED: start_op.IdempotencyKeyReused,
    Refusal.RECOVERY_ONLY: start_op.AdmissionRecoveryOnly,
    Refusal.HELD: start_op.AdmissionHeld,
    Refusal.EXECUTION_HELD: start_op.ExecutionHeld,
    Refusal.DEPLOYMENT_REFUSED: start_op.DeploymentRefused,
    Refusal.ACTIVATION_CHANGED: start_op.DeploymentActivationChanged,
    Refusal.DEFINITION_REFUSED: start_op.DefinitionRefused,
    Refusal.BINDING_CONFLICT: start_op.BindingConflict,
    Refusal.BINDING_LIVE_CONFLICT: start_op.BindingLiveConflict,
}

REFUSAL_DETAILS: Final[Mapping[Refusal, str]] = {
    **CONFLICT_DETAILS,
    Refusal.WORKFLOW_NOT_SERVED: "The active package has no such workflow.",
    Refusal.INPUT_INVALID: "The input does not satisfy the workflow's input schema.",
    Refusal.KEY_REUSED: "The key stands for another request already.",
}


async def start_run(app: App, request: start_op.Request) -> start_op.Response:
    """Start a run by hand; the same key with the same request finds the run that stands."""
    outcome = await app.storage.runs.start(_start(app.deployment.package, request))
    if isinstance(outcome, Refused):
        if outcome.why is Refusal.ACTIVATION_CHANGED:
            await app.deployment.load()
        raise REFUSALS[outcome.why](REFUSAL_DETAILS[outcome.why])
    run = run_model(outcome.run)
    answer = start_op.Created if outcome.new else start_op.Ok
    return answer(body=run, location=f"/v1/runs/{run.run_id}", x_coordinator_run_id=run.run_id)


async def list_runs(app: App, request: list_op.Request) -> list_op.Response:
    """Give one page of runs, newest first."""
    state = None if request.state is msgspec.UNSET else request.state
    before = None if request.before is msgspec.UNSET else request.before
    runs = await app.storage.runs.list(limit=request.limit, state=state, before=before)
    return list_op.Ok(body=models.RunList(runs=[run_model(run) for run in runs]))


async def get_run(app: App, request: get_op.Request) -> get_op.Response:
    """Show a run as it stands."""
    run = await app.storage.runs.get(request.run)
    if run is None:
        raise get_op.RunNotVisible(NO_RUN)
    return get_op.Ok(body=run_model(run))


async def inspect_run(app: App, request: inspect_op.Request) -> inspect_op.Response:
    """Show a run with the steps that it has entered."""
    inspection = await app.storage.runs.inspect(request.run)
    if inspection is None:
        raise inspect_op.RunNotVisible(NO_RUN)
    steps = [_step_model(step) for step in inspection.steps]
    return inspect_op.Ok(
        body=models.RunInspection(run=run_model(inspection.run), steps=steps, recovery=inspection.recovery)
    )


async def cancel_run(app: App, request: cancel_op.Request) -> cancel_op.Response:
    """End a run, or ask for its end; one that has ended comes back unchanged."""
    run = await app.storage.runs.cancel(request.run, request.body.reason)
    if run is None:
        raise cancel_op.RunNotVisible(NO_RUN)
    return cancel_op.Ok(body=run_model(run))


def run_model(run: Run) -> models.Run:
    """Return a stored run as answers have it: times as RFC 3339, the output as the JSON value that it is."""
    return models.Run(
        run_id=run.run_id,
        workflow_id=run.workflow_id,
        workflow_version=run.workflow_version,
        definition_digest=run.definition_digest,
        binding_digest=run.binding_digest,
        step=run.step,
        state=run.state,
        admitted_at=rfc3339(run.admitted_at),
        deadline_at=rfc3339(run.deadline_at),
        next_due_at=rfc3339(run.next_due_at),
        uncertain=run.uncertain,
        cancel_requested=run.cancel_requested,
        restore_review_required=run.restore_review_required,
        outcome=run.outcome,
        output=None if run.output is None else msgspec.Raw(run.output.encode()),
        failure_code=run.failure_code,
    )


def _step_model(step: Step) -> models.RunStep:
    attempts = [
        models.StepAttempt(
            number=attempt.number,
            started_at=rfc3339(attempt.started_at),
            ended_at=rfc3339(attempt.ended_at),
            result=attempt.result,
            http_status=attempt.http_status,
        )
        for attempt in step.attempts
    ]
    return models.RunStep(step=step.step, type=step.type, state=step.state, attempts=attempts)


def _start(package: ActivePackage | None, request: start_op.Request) -> Start:
    binding = package.workflows.get(request.body.flow) if package else None
    made: str | Refusal | None = None
    if package is not None:
        made = input_of_start(request.body.input, binding) if binding else Refusal.WORKFLOW_NOT_SERVED
    return Start(
        workflow=request.body.flow,
        idempotency_key=request.idempotency_key,
        request_digest=_digest(request.body),
        run=binding.new_run(made) if binding and isinstance(made, str) else None,
        activation=package.digest if package else None,
        fault=Refused(made) if isinstance(made, Refusal) else None,
        conflict=binding.conflict if binding else None,
    )


def _digest(body: models.RunStart) -> str:
    """Return the digest of what has to be equal in a repeat: the value of the body, however it was spelled."""
    spelled = orjson.dumps({"flow": body.flow, "input": body.input}, option=orjson.OPT_SORT_KEYS)
    return "sha256:" + hashlib.sha256(spelled).hexdigest()
