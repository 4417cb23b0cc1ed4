"""The package that this process has loaded, and how it comes to load the one that another process applied."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.workflows.active import ActivePackage, unpermitted
from handlers.coordinator.workflows.package import RefusedPackageError
from storage.workflows import Activation, Workflows

log = logging.getLogger("gatehouse.coordinator")


class Deployment:
    """Holds the loaded package; None before the first apply."""

    def __init__(self, workflows: Workflows, connections: Mapping[str, Connection]) -> None:
        self._workflows = workflows
        self._connections = connections
        self._loading = asyncio.Lock()
        self.package: ActivePackage | None = None

    @property
    def digest(self) -> str | None:
        """The digest of the loaded package."""
        return self.package.digest if self.package else None

    async def load(self) -> None:
        """Load the active package; of several who ask at once, the first loads it for all.

        One that a newer version applied, and that this one cannot read, is told in the log and not loaded: until it is,
        no run is admitted, and what was admitted before is still found.
        """
        seen = self.package
        async with self._loading:
            if self.package is not seen:
                return
            active = await self._workflows.active()
            if active is not None and active.digest != self.digest:
                self._take(active)
            elif active is None:
                self.package = None

    def _take(self, active: Activation) -> None:
        try:
            self.package = ActivePackage.load(active.snapshot, self._connections, active.redefined)
        except RefusedPackageError as error:
            log.error("the active package %s cannot be read: %s", active.digest, error)
            return
        for workflow in self.package.package.workflows.values():
            for call in unpermitted(workflow, self._connections):
                place = (workflow.id, call.method, call.path, call.connection)
                log.warning("%s starts no run: no configured connection permits %s %s of %s", *place)
