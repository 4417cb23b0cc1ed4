"""The tag doctor: what an operator looks at first."""

from __future__ import annotations

from generated.coordinator import models
from generated.coordinator.operations import doctor as op
from handlers.coordinator.app import App
from handlers.coordinator.holds import holds_model
from handlers.gateway.times import rfc3339
from storage.doctor import ActivePackage


async def doctor(app: App, _: op.Request) -> op.Response:
    """Show holds, the active package, and how much work stands, waits or needs a look."""
    report = await app.storage.doctor.report()
    return op.Ok(
        body=models.Doctor(
            holds=holds_model(report.holds),
            activation=_activation_model(report.activation),
            runs=models.RunCounts(**{str(state): count for state, count in report.runs.items()}),
            oldest_due_at=rfc3339(report.oldest_due_at),
            uncertain=report.uncertain,
            backlog=report.backlog,
        )
    )


def _activation_model(active: ActivePackage | None) -> models.Activation | None:
    return None if active is None else models.Activation(digest=active.digest, applied_at=rfc3339(active.applied_at))
