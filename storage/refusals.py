"""The closed list of reasons for which a rule refuses work, as values that a caller turns into its own answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Refusal(Enum):
    """Why work was refused; each is one problem code of spec/coordinator.yaml."""

    EVENT_INVALID = auto()
    EVENT_TOO_LARGE = auto()
    INPUT_INVALID = auto()
    WORKFLOW_NOT_SERVED = auto()
    KEY_REUSED = auto()
    RECOVERY_ONLY = auto()
    HELD = auto()
    EXECUTION_HELD = auto()
    DEPLOYMENT_REFUSED = auto()
    ACTIVATION_CHANGED = auto()
    DEFINITION_REFUSED = auto()
    BINDING_CONFLICT = auto()
    BINDING_LIVE_CONFLICT = auto()
    HOLD_REQUIRED = auto()
    RESTORE_UNRESOLVED = auto()
    RETRY_REFUSED = auto()
    DEFINITION_INCOMPATIBLE = auto()
    REVIEW_REQUIRED = auto()
    EVALUATION_UNCERTAIN = auto()
    MUTATION_UNCERTAIN = auto()
    RECONCILE_UNSUPPORTED = auto()
    RECONCILE_REFUSED = auto()
    RECONCILE_RACED = auto()
    RECEIPT_EXPIRED = auto()


@dataclass(frozen=True, slots=True)
class Refused:
    """Work that a rule refused; nothing was stored. `detail` is the caller's own word, handed back unread."""

    why: Refusal
    detail: str | None = None
