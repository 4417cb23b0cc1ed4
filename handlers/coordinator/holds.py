"""The tag holds: the switches that stop admission and execution around a restore."""

from __future__ import annotations

from typing import Final

from generated.coordinator import models
from generated.coordinator.operations import release_admission_hold as admission_op
from generated.coordinator.operations import release_restore_hold as release_op
from generated.coordinator.operations import restore_hold as hold_op
from handlers.coordinator.app import App
from storage.holds import HoldState
from storage.refusals import Refusal, Refused

NOT_HELD: Final = "The hold that this releases does not stand."
UNRESOLVED: Final = "The admission history has to be complete, and the prior deployment fenced."


async def restore_hold(app: App, request: hold_op.Request) -> hold_op.Response:
    """Set the execution hold and, with it, the admission hold."""
    return hold_op.Ok(body=holds_model(await app.storage.holds.restore(request.body.reason)))


async def release_restore_hold(app: App, request: release_op.Request) -> release_op.Response:
    """Release the execution hold."""
    outcome = await app.storage.holds.release_restore(request.body.reason)
    if isinstance(outcome, Refused):
        raise release_op.RestoreHoldRequired(NOT_HELD)
    return release_op.Ok(body=holds_model(outcome))


async def release_admission_hold(app: App, request: admission_op.Request) -> admission_op.Response:
    """Release the admission hold, where the caller vouches for both conditions."""
    outcome = await app.storage.holds.release_admission(
        recovery_reference=request.body.recovery_reference,
        admission_history_complete=request.body.admission_history_complete,
        prior_deployment_fenced=request.body.prior_deployment_fenced,
    )
    if isinstance(outcome, Refused):
        if outcome.why is Refusal.RESTORE_UNRESOLVED:
            raise admission_op.RestoreUnresolved(UNRESOLVED)
        raise admission_op.RestoreHoldRequired(NOT_HELD)
    return admission_op.Ok(body=holds_model(outcome))


def holds_model(state: HoldState) -> models.Holds:
    """Return the holds as answers have them."""
    return models.Holds(admission_held=state.admission_held, execution_held=state.execution_held)
