from __future__ import annotations

from tests.durability.conftest import Besieged
from tests.durability.ledger import Ledger
from tests.durability.process import used
from tests.support import load
from tests.support.gatehouse import wait_for

# design.md gives a header ten seconds and a body thirty.
END_SECONDS = 60.0


def test_clients_that_never_finish_are_ended_and_leave_nothing_behind(besieged: Besieged) -> None:
    server, clients, before = besieged
    ledger = Ledger()
    ledger.redeliver(server, load.deliveries(500))
    wait_for(lambda: clients.left == 0, END_SECONDS)
    wait_for(lambda: used(server).descriptors <= before.descriptors)
    ledger.redeliver(server, load.deliveries(500))
    assert ledger.prove(server) == 1_001
