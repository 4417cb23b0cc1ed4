"""Why a join is not what a request takes it for, in words and as `details`."""

from __future__ import annotations

from typing import Final

from generated.join.models import JoinStanding
from storage.join.refusals import Refused

NO_JOIN: Final = "There is no join with this id."


def standing(refused: Refused) -> JoinStanding:
    """Return the state of the join for which something was refused."""
    if refused.state is None:
        raise ValueError("the refusal does not tell the state of the join")
    return JoinStanding(state=refused.state, position=refused.position)
