from __future__ import annotations

import pytest

from generated.join.models import JoinStanding
from handlers.join.standing import standing
from storage.join.refusals import Refusal, Refused


def test_a_refusal_tells_where_the_join_stands() -> None:
    assert standing(Refused(Refusal.NOT_IN_TURN, "approved", 3)) == JoinStanding(state="approved", position=3)
    assert standing(Refused(Refusal.ENDED, "failed")) == JoinStanding(state="failed", position=None)


def test_one_that_is_not_for_the_state_of_a_join_tells_nothing() -> None:
    with pytest.raises(ValueError, match="state"):
        standing(Refused(Refusal.STEP_ORDER))
