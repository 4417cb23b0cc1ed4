"""Why neither an event nor an operator can start a run now: the refusals that admitEvent and startRun share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from storage.refusals import Refusal

CONFLICT_DETAILS: Final[Mapping[Refusal, str]] = {
    Refusal.RECOVERY_ONLY: "This server only finds what was admitted before.",
    Refusal.HELD: "Admission is held until an operator releases it.",
    Refusal.EXECUTION_HELD: "Execution is held until an operator releases it.",
    Refusal.DEPLOYMENT_REFUSED: "No active package serves this.",
    Refusal.ACTIVATION_CHANGED: "Another package was applied; the same request again meets it.",
    Refusal.DEFINITION_REFUSED: "The workflow's id and version are retained with another definition.",
    Refusal.BINDING_CONFLICT: "A connection that the workflow needs is not configured, or does not permit its calls.",
    Refusal.BINDING_LIVE_CONFLICT: (
        "A live run of the workflow is pinned to connections that were configured otherwise: restore them, or end it."
    ),
}
