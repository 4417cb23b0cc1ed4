"""The tag events: a signed product event is checked, then admitted by storage in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from generated.coordinator.operations import admit_event as op
from handlers.coordinator.app import App
from handlers.coordinator.conflicts import CONFLICT_DETAILS
from handlers.coordinator.envelope import check_envelope, event_id
from handlers.coordinator.workflows.active import ActivePackage, TriggerBinding, input_of_event
from storage.events import Admitted, Candidate
from storage.refusals import Refusal, Refused

# The canonical value of a new event has at most this many bytes; a redelivered one is known by its identity before.
MAX_EVENT_BYTES: Final = 131_072

REFUSALS: Final[Mapping[Refusal, Callable[[str], op.Problems]]] = {
    Refusal.EVENT_INVALID: op.EventInvalid,
    Refusal.EVENT_TOO_LARGE: op.EventTooLarge,
    Refusal.INPUT_INVALID: op.InputInvalid,
    Refusal.KEY_REUSED: op.IdempotencyKeyReused,
    Refusal.RECOVERY_ONLY: op.AdmissionRecoveryOnly,
    Refusal.HELD: op.AdmissionHeld,
    Refusal.EXECUTION_HELD: op.ExecutionHeld,
    Refusal.DEPLOYMENT_REFUSED: op.DeploymentRefused,
    Refusal.ACTIVATION_CHANGED: op.DeploymentActivationChanged,
    Refusal.DEFINITION_REFUSED: op.DefinitionRefused,
    Refusal.BINDING_CONFLICT: op.BindingConflict,
    Refusal.BINDING_LIVE_CONFLICT: op.BindingLiveConflict,
}

REFUSAL_DETAILS: Final[Mapping[Refusal, str]] = {
    **CONFLICT_DETAILS,
    Refusal.EVENT_INVALID: "The event is not one that the trigger takes.",
    Refusal.EVENT_TOO_LARGE: "A new event has at most 131,072 bytes.",
    Refusal.INPUT_INVALID: "The event does not make an input that the workflow takes.",
    Refusal.KEY_REUSED: "The event or its Idempotency-Key stands for other bytes already.",
}


async def admit_event(app: App, request: op.Request) -> op.Response:
    """Admit one signed event; the writer decides identity, holds and activation in one transaction."""
    fault = check_envelope(request)
    if fault is not None:
        raise op.EventInvalid(fault)
    outcome = await app.storage.admissions.admit(candidate(app.deployment.package, request))
    if isinstance(outcome, Admitted):
        return op.NoContent(x_coordinator_run_id=outcome.run_id)
    if outcome.why is Refusal.ACTIVATION_CHANGED:
        await app.deployment.load()
    raise REFUSALS[outcome.why](REFUSAL_DETAILS[outcome.why])


def candidate(package: ActivePackage | None, request: op.Request) -> Candidate:
    """Return what storage decides on: the identity, and what steps 7 to 9 find with the loaded package."""
    binding = package.triggers.get((request.workflow, request.trigger)) if package else None
    made = _input(binding, request) if binding else None
    return Candidate(
        workflow=request.workflow,
        trigger=request.trigger,
        source=request.body.source,
        event_id=event_id(request.body.id),
        idempotency_key=request.idempotency_key,
        event_digest="sha256:" + hashlib.sha256(request.raw_body).hexdigest(),
        run=binding.workflow.new_run(made) if binding and isinstance(made, str) else None,
        activation=package.digest if package else None,
        fault=Refused(made) if isinstance(made, Refusal) else None,
        conflict=binding.workflow.conflict if binding else None,
    )


def _input(binding: TriggerBinding, request: op.Request) -> str | Refusal:
    if len(request.raw_body) > MAX_EVENT_BYTES:
        return Refusal.EVENT_TOO_LARGE
    return input_of_event(msgspec.to_builtins(request.body), binding)
