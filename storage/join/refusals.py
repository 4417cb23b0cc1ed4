"""The closed list of reasons for which a rule of join refuses work, as values that a caller turns into its answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from storage.join.states import JoinState


class Refusal(Enum):
    """Why work was refused; each is one problem code of spec/join.yaml."""

    TOKEN_REFUSED = auto()
    NAME_TAKEN = auto()
    STATE_CONFLICT = auto()
    APPROVAL_REFUSED = auto()
    NOT_IN_TURN = auto()
    ENDED = auto()
    STEP_ORDER = auto()
    KEY_REUSED = auto()


@dataclass(frozen=True, slots=True)
class Refused:
    """Work that a rule refused; nothing of it was stored.

    `state` and `position` are those of the join where they are the reason, `fields` the members of the request that
    are at fault.
    """

    why: Refusal
    state: JoinState | None = None
    position: int | None = None
    fields: tuple[str, ...] = ()
