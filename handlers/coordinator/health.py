"""The tag health: probes for whoever supervises the process."""

from __future__ import annotations

from generated.coordinator import models
from generated.coordinator.operations import live as live_op
from generated.coordinator.operations import ready as ready_op
from handlers.coordinator.app import App


async def live(_: App, __: live_op.Request) -> live_op.Response:
    """Tell that the process answers; nothing else is looked at."""
    return live_op.Ok(body=models.Live(live=True))


async def ready(app: App, _: ready_op.Request) -> ready_op.Response:
    """Tell that the database answers; a fault of it is a 503 like everywhere else."""
    await app.storage.ready()
    return ready_op.Ok(body=models.Ready(ready=True))
