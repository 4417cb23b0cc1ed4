"""The tag install: attempts, of which the latest is shown."""

from __future__ import annotations

from typing import Final

from generated.installer import models
from generated.installer.operations import get_install as get_op
from generated.installer.operations import start_install as start_op
from handlers.gateway.times import rfc3339
from handlers.installer.app import App
from storage.installer.attempts import NoConfig, RunningAlready
from storage.installer.records import Attempt, StepRecord

NO_CONFIG: Final = "No configuration is stored yet."
MISSING: Final = "is not stored yet"
RUNNING: Final = "An attempt runs; it has to end first."


async def start_install(app: App, _: start_op.Request) -> start_op.Response:
    """Begin the next attempt with the config that is stored."""
    outcome = await app.job.start()
    if isinstance(outcome, NoConfig):
        raise start_op.InvalidConfig(NO_CONFIG, errors=[models.FieldError(field_="", message=MISSING)])
    if isinstance(outcome, RunningAlready):
        raise start_op.InstallRunning(RUNNING)
    return start_op.Accepted(body=install_model(outcome))


async def get_install(app: App, _: get_op.Request) -> get_op.Response:
    """Show how the latest attempt stands, or that there is none."""
    return get_op.Ok(body=install_model(await app.storage.attempts.latest()))


def install_model(attempt: Attempt) -> models.Install:
    """Return an attempt as answers have it."""
    return models.Install(
        attempt=attempt.attempt,
        state=attempt.state,
        steps=[_step_model(step) for step in attempt.steps],
        started_at=rfc3339(attempt.started_at),
        ended_at=rfc3339(attempt.ended_at),
        detail=attempt.detail,
        last_event_id=attempt.last_event_id,
    )


def _step_model(step: StepRecord) -> models.InstallStep:
    return models.InstallStep(
        name=step.name,
        status=step.status,
        started_at=rfc3339(step.started_at),
        ended_at=rfc3339(step.ended_at),
    )
