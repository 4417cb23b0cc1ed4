from __future__ import annotations

import asyncio
import os
import random
import signal

import pytest

from tests.durability.ledger import Ledger, statuses, verify
from tests.support import load
from tests.support.effort import tries
from tests.support.gatehouse import Gatehouse
from tests.support.load import Watch

EVENTS = tries(2_000, elsewhere=1_000)
KILLS = tries(10, elsewhere=3)


def killer(pid: int, chance: random.Random, *, of: int = EVENTS) -> Watch:
    """Kill at a moment within the load of so many that does not follow the answers of a commit."""
    count, delay = chance.randrange(50, of * 3 // 4), chance.uniform(0, 0.01)

    def watch(answered: int) -> None:
        if answered == count:
            asyncio.get_running_loop().call_later(delay, os.kill, pid, signal.SIGKILL)

    return watch


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_kill_in_the_middle_of_deliveries_loses_no_acknowledged_run_and_doubles_none(
    server: Gatehouse, ledger: Ledger, seed: int
) -> None:
    before = len(ledger)
    deliveries = load.deliveries(EVENTS)
    outcomes = ledger.send(server, deliveries, watch=killer(server.pid, random.Random(seed)))
    server.kill()
    assert statuses(outcomes) == {204, None}

    server.start()
    assert before < ledger.prove(server) < before + EVENTS
    run = next(answer.run for answer in outcomes if answer)
    assert server.operate("GET", f"/v1/runs/{run}").json["runId"] == run
    ledger.redeliver(server, deliveries)
    assert ledger.compare(server) == before + EVENTS


def test_after_all_kills_the_command_finds_the_audit_whole(server: Gatehouse, ledger: Ledger) -> None:
    assert ledger.prove(server) == len(ledger)
    verify(server)
