"""The package that this process has loaded, and how it comes to load the one that another process applied."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from handlers.coordinator.workflows.active import ActivePackage
from storage.workflows import Workflows


class Deployment:
    """Holds the loaded package; None before the first apply."""

    def __init__(self, workflows: Workflows, connections: Mapping[str, Mapping[str, Any]]) -> None:
        self._workflows = workflows
        self._connections = connections
        self._loading = asyncio.Lock()
        self.package: ActivePackage | None = None

    @property
    def digest(self) -> str | None:
        """The digest of the loaded package."""
        return self.package.digest if self.package else None

    async def load(self) -> None:
        """Load the active package; of several who ask at once, the first loads it for all."""
        seen = self.package
        async with self._loading:
            if self.package is not seen:
                return
            active = await self._workflows.active()
            if active is not None and active.digest != self.digest:
                self.package = ActivePackage.load(active.snapshot, self._connections, active.redefined)
            elif active is None:
                self.package = None
