from __future__ import annotations

import pytest

from tests.durability.kills import lay_siege
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import CARRIED_OUT, NewServer

pytestmark = pytest.mark.timeout(600)


def test_every_run_goes_its_right_way_whatever_is_killed(new_server: NewServer) -> None:
    figures = lay_siege(new_server(environment=CARRIED_OUT), kills=3, workflows=8, seed=5)
    assert sum(figures["kills"].values()) == 3


@in_ci_alone
@pytest.mark.parametrize("seed", [1])
def test_every_one_of_fifty_runs_goes_its_right_way_under_twenty_kills(new_server: NewServer, seed: int) -> None:
    figures = lay_siege(new_server(environment=CARRIED_OUT), kills=20, workflows=50, seed=seed)
    assert figures["runs"] == 50
