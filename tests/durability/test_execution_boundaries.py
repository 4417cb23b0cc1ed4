from __future__ import annotations

import pytest

from tests.durability.dying import Death, Deaths
from tests.durability.kills import Errand, besieged
from tests.support.effort import THOROUGH
from tests.support.gatehouse import CARRIED_OUT, NewServer

# An errand with everything in it takes up and settles eight steps, of which four are calls and dispatched in between.
WRITES = 20
ALL = [Death(write, when) for write in range(WRITES) for when in ("before", "after")]
# While a notice may be sent, when a booking is and that is not written, and between two steps.
SOME = [Death(8, "after"), Death(12, "before"), Death(15, "before")]


@pytest.mark.timeout(600)
def test_an_executor_that_dies_at_any_write_of_its_journal_leaves_each_run_on_its_way(
    new_server: NewServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    planned = ALL if THOROUGH else SOME
    deaths = Deaths(tmp_path_factory.mktemp("deaths"), planned)
    # Whoever dies five times in one step waits for a person: here one dies for itself alone.
    one_by_one = {"GATEHOUSE_EXECUTION_CONCURRENCY": "1"}
    with besieged(new_server(environment=CARRIED_OUT | one_by_one | deaths.environment), seed=1) as siege:
        # Every second name is one that gets to each step.
        siege.admit(Errand(2 * number, "1s", orders=True) for number in range(len(planned)))
        siege.prove()
    assert deaths.died()
