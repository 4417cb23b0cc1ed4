from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from handlers.gateway.pressure import FEW, STALL_SECONDS
from tests.durability.ledger import Ledger, problems, statuses
from tests.support import load
from tests.support.deliveries import Delivery
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


@pytest.fixture(scope="module")
def roomy(new_server: NewServer) -> Iterator[Gatehouse]:
    """A server in which as many may wait as by itself, with patience enough to outlast a lock."""
    patient = new_server()
    patient.configure(limits={"busyMilliseconds": 30_000})
    with patient as started:
        yield started


def test_where_answers_stay_away_more_is_refused_unread_and_taken_again_afterwards(roomy: Gatehouse) -> None:
    waiting, late = load.deliveries(FEW), Delivery()
    with roomy.database() as other:
        other.execute("BEGIN EXCLUSIVE")
        with load.unanswered(roomy.port, [load.signed(each, roomy.key) for each in waiting]):
            arrived = time.monotonic()
            wait_for(lambda: time.monotonic() > arrived + 1.5 * STALL_SECONDS)
            # The first of each pair is refused before it is routed, the second, whose body has no length, behind that.
            for chunks in ((), (late.body,)):
                answer = roomy.deliver(late, chunks=chunks)
                assert (*answer.outcome, answer.header("Retry-After")) == OVERLOADED
                assert answer.json["traceId"] == answer.header("X-Request-Id")
            assert roomy.deliver(late, key=bytes(32)).outcome == OVERLOADED[:2]
            assert roomy.send("GET", "/ready").status == 200
            assert roomy.operate("GET", "/v1/runs").status == 200
            assert roomy.operate("POST", "/v1/release-admission-hold", {"a": "mistake"}).status == 400
            assert roomy.send("POST", "/v1/nothing").status == 404
        other.execute("ROLLBACK")
    wait_for(lambda: roomy.rows()["runs"] == len(waiting))
    wait_for(lambda: roomy.deliver(late).status == 204)
    assert roomy.rows()["runs"] == len(waiting) + 1


def test_as_many_clients_as_are_few_are_never_refused(roomy: Gatehouse) -> None:
    answers = load.send(roomy.port, [load.signed(each, roomy.key) for each in load.deliveries(600)], connections=FEW)
    assert {answer.status for answer in answers if answer} == {204}


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
