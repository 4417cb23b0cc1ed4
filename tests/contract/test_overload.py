from __future__ import annotations

from tests.support import wire
from tests.support.contract import check
from tests.support.deliveries import PATH, Delivery
from tests.support.gatehouse import NewServer


def test_what_finds_no_place_to_wait_is_refused_at_once_for_one_second(new_server: NewServer) -> None:
    server = new_server()
    server.configure(limits={"waiting": 3})
    server.start()
    deliveries = [Delivery() for _ in range(20)]
    requests = [wire.message("POST", PATH, each.headers(server.key), each.body) for each in deliveries]
    with server.database() as another:
        another.execute("BEGIN IMMEDIATE")
        answers = wire.send_at_once(server.port, requests)
    for answer in answers:
        check("POST", PATH, answer)
    told = sorted((*answer.outcome, answer.header("Retry-After")) for answer in answers)
    assert told == [(503, "service.unavailable", "1")] * 17 + [(503, "service.unavailable", "5")] * 3
    assert server.rows()["admissions"] == 0
    for delivery in deliveries:
        assert server.deliver(delivery).status == 204
