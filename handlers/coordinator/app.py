"""What the coordinator's handlers work with."""

from __future__ import annotations

from dataclasses import dataclass

from handlers.coordinator.deployment import Deployment
from storage.database import Storage


@dataclass(frozen=True, slots=True)
class App:
    """One process's coordinator: its storage and the package that it has loaded."""

    storage: Storage
    deployment: Deployment
