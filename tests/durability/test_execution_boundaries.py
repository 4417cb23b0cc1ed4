from __future__ import annotations

import pytest

from tests.durability.dying import Death, Deaths
from tests.durability.executions import for_a_person, retry, settle
from tests.durability.kills import Errand, besieged
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import CARRIED_OUT, NewServer

# An errand with everything in it takes up and settles eight steps, of which four are calls and dispatched in between.
WRITES = 20
ALL = [Death(write, when) for write in range(WRITES) for when in ("before", "after")]


@in_ci_alone
@pytest.mark.timeout(600)
def test_an_executor_that_dies_at_any_write_of_its_journal_leaves_each_run_on_its_way(
    new_server: NewServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    deaths = Deaths(tmp_path_factory.mktemp("deaths"), ALL)
    with besieged(new_server(environment=CARRIED_OUT | deaths.environment), seed=1) as siege:
        # Every second name is one that gets to each step.
        siege.admit(Errand(2 * number, "1s", orders=True) for number in range(len(ALL)))
        siege.prove()
    assert deaths.died()


@in_ci_alone
def test_a_step_that_brings_five_executors_down_waits_for_a_person_and_stops_no_other_run(
    new_server: NewServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    deaths = Deaths(tmp_path_factory.mktemp("deaths"), [Death(1, "before", times=5)])
    with besieged(new_server(environment=CARRIED_OUT | deaths.environment), seed=1) as siege:
        siege.admit(Errand(number, "0s", orders=False) for number in range(12))
        found = settle(siege.server, list(siege.runs), seconds=120)
        [culprit] = [run for run, seen in found.items() if for_a_person(seen)]
        assert deaths.died()
        assert retry(siege.server, culprit) == (409, "evaluation.uncertain")
        assert retry(siege.server, culprit, repeat=True) == (200, "")
        siege.prove()
