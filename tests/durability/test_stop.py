from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from tests.durability.ledger import Ledger, statuses
from tests.durability.slow import SlowClients
from tests.support import load, wire
from tests.support.gatehouse import Gatehouse
from tests.support.wire import Wire

# design.md gives answers two seconds after the signal.
END_SECONDS = 3.0
# Where the machine is busy with other things, a server that waits for nothing may still take longer.
PATIENCE_SECONDS = 15.0
# The load has sent one; another might come when nobody handles it any more.
NO_SIGNAL = 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_told_to_stop_under_load_ends_in_time_and_keeps_what_it_acknowledged(
    server: Gatehouse, ledger: Ledger, number: int
) -> None:
    before = len(ledger)
    deliveries = load.deliveries(2_000)

    def watch(answered: int) -> None:
        if answered == 700:
            asyncio.get_running_loop().call_soon(os.kill, server.pid, number)

    outcomes = ledger.send(server, deliveries, watch=watch)
    began = time.monotonic()
    assert server.stop(NO_SIGNAL) == 0
    assert time.monotonic() - began < END_SECONDS
    assert statuses(outcomes) == {204, None}
    assert '"level":"error"' not in server.log

    server.start()
    assert before < ledger.prove(server) < before + len(deliveries)
    ledger.redeliver(server, deliveries)
    assert ledger.prove(server) == before + len(deliveries)


def test_a_server_told_to_stop_while_the_database_is_locked_ends_when_its_patience_does(
    server: Gatehouse, ledger: Ledger
) -> None:
    (delivery,) = load.deliveries(1)
    with server.database() as other:
        other.execute("BEGIN EXCLUSIVE")
        with load.unanswered(server.port, [load.signed(delivery, server.key)]):
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < PATIENCE_SECONDS
        other.execute("ROLLBACK")
    server.start()
    assert ledger.prove(server) == len(ledger)
    ledger.redeliver(server, [delivery])


def test_a_server_told_to_stop_does_not_wait_for_clients_that_never_finish(server: Gatehouse, ledger: Ledger) -> None:
    with SlowClients(server.port, of_each_kind=10), Wire(server.port) as used:
        used.write(wire.message("GET", "/health"))
        assert used.read().status == 200
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < END_SECONDS
    server.start()
    assert ledger.prove(server) == len(ledger)
