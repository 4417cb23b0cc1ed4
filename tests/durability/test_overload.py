from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.durability.ledger import Ledger, problems, statuses
from tests.support import load
from tests.support.gatehouse import Gatehouse, NewServer, wait_for

WAITING = 8
OVERLOADED = (503, "service.unavailable", "1")


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[Gatehouse]:
    """A server with room for a few that wait, and with patience enough to outlast a lock."""
    bounded = new_server()
    bounded.configure(limits={"waiting": WAITING, "busyMilliseconds": 30_000})
    with bounded as started:
        yield started


def test_more_than_may_wait_is_refused_at_once_and_what_waits_is_served_in_the_end(
    server: Gatehouse, ledger: Ledger
) -> None:
    before = len(ledger)
    deliveries = load.deliveries(200)
    with server.database() as other:
        other.execute("BEGIN EXCLUSIVE")

        def unlock(answered: int) -> None:
            if answered == len(deliveries) - WAITING:
                other.execute("ROLLBACK")

        outcomes = ledger.send(server, deliveries, connections=64, watch=unlock)
    assert statuses(outcomes) == {204, 503}
    assert problems(outcomes) == {OVERLOADED}
    assert len(ledger) == ledger.compare(server) == before + WAITING

    assert statuses(ledger.send(server, deliveries, connections=WAITING)) == {204}
    assert ledger.prove(server) == before + len(deliveries)


def test_a_refusal_for_overload_does_no_work(server: Gatehouse, ledger: Ledger) -> None:
    outcomes = ledger.send(server, load.deliveries(1_000), connections=128)
    assert statuses(outcomes) == {204, 503}
    assert problems(outcomes) == {OVERLOADED}
    assert ledger.prove(server) == len(ledger)


def test_the_operator_sees_a_server_that_is_overloaded(server: Gatehouse, ledger: Ledger) -> None:
    before = len(ledger)
    deliveries = load.deliveries(WAITING)
    with server.database() as other:
        other.execute("BEGIN EXCLUSIVE")
        with load.unanswered(server.port, [load.signed(each, server.key) for each in deliveries]):
            assert server.send("GET", "/health").status == 200
            assert server.send("GET", "/ready").status == 200
            assert server.operate("GET", "/v1/doctor").status == 200
            assert server.operate("POST", "/v1/restore-hold", {"reason": "overload"}).outcome == OVERLOADED[:2]
        other.execute("ROLLBACK")
    wait_for(lambda: server.rows()["runs"] == before + WAITING)
    ledger.redeliver(server, deliveries)
    assert ledger.prove(server) == before + WAITING
