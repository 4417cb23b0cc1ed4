"""What the coordinator's handlers work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from handlers.coordinator.definitions import Definitions
from handlers.coordinator.deployment import Deployment
from handlers.coordinator.execution.caller import Caller
from handlers.coordinator.execution.connection import Connection
from storage.database import Storage


@dataclass(frozen=True, slots=True)
class App:
    """One process's coordinator: its storage, the package that it has loaded, and whom it asks for receipts.

    `definitions` are those of its runs, `connections` are the configured ones by name.
    """

    storage: Storage
    deployment: Deployment
    definitions: Definitions
    connections: Mapping[str, Connection]
    caller: Caller
