from __future__ import annotations

import psycopg

from tests.durability.conftest import on_postgresql
from tests.durability.ledger import Ledger, problems, verify
from tests.storage.postgresql import Server
from tests.support import load
from tests.support.gatehouse import NewServer

UNAVAILABLE = (503, "service.unavailable", "5")


def test_a_postgresql_that_crashes_under_load_is_answered_503_until_it_is_back(
    new_server: NewServer, postgresql: Server
) -> None:
    ledger, url = Ledger(), postgresql.create("crashing")
    deliveries = load.deliveries(1_000)

    def crash(answered: int) -> None:
        if answered == 300:
            postgresql.stop()

    with on_postgresql(new_server, url) as server:
        outcomes = ledger.send(server, deliveries, watch=crash)
        assert problems(outcomes) == {UNAVAILABLE}
        assert server.send("GET", "/health").status == 200
        assert server.send("GET", "/ready").outcome == UNAVAILABLE[:2]

        postgresql.start()
        ledger.redeliver(server, deliveries)
        verify(server)
        with psycopg.connect(url) as connection:
            assert ledger.compare_rows(connection) == len(deliveries)
