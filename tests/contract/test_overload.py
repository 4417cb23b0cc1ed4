from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import wire
from tests.support.contract import check
from tests.support.deliveries import PATH, Delivery
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.nodes import JSON, Node, line
from tests.support.wire import Answer


@pytest.fixture(scope="module")
def narrow(new_server: NewServer) -> Iterator[Gatehouse]:
    """A server in which three may wait for the storage."""
    server = new_server()
    server.configure(limits={"waiting": 3})
    with server:
        yield server


def told(answers: list[Answer]) -> list[tuple[int, str, str | None]]:
    return sorted((*answer.outcome, answer.header("Retry-After")) for answer in answers)


def test_what_finds_no_place_to_wait_is_refused_at_once_for_one_second(narrow: Gatehouse) -> None:
    deliveries = [Delivery() for _ in range(20)]
    requests = [wire.message("POST", PATH, each.headers(narrow.key), each.body) for each in deliveries]
    with narrow.database() as another:
        another.execute("BEGIN IMMEDIATE")
        answers = wire.send_at_once(narrow.port, requests)
    for answer in answers:
        check("POST", PATH, answer)
    assert told(answers) == [(503, "service.unavailable", "1")] * 17 + [(503, "service.unavailable", "5")] * 3
    assert narrow.rows()["admissions"] == 0
    for delivery in deliveries:
        assert narrow.deliver(delivery).status == 204


def test_a_report_that_finds_no_place_to_wait_is_refused_likewise_and_may_come_again(narrow: Gatehouse) -> None:
    node = Node.in_turn(narrow)
    target, body = f"{node.path}/events", b'{"events":[{"type":"log","message":"a line"}]}'
    requests = [wire.message("POST", target, JSON | {"Idempotency-Key": str(each)}, body) for each in range(10)]
    with narrow.database() as another:
        another.execute("BEGIN IMMEDIATE")
        answers = wire.send_at_once(narrow.join_port, requests, node.wrap)
    for answer in answers:
        check("POST", target, answer, "join")
    assert {each[:2] for each in told(answers)} == {(503, "UNAVAILABLE")}
    assert told(answers)[0][2] == "1"
    assert narrow.join_log(node.join_id) == {"lines": [], "dropped": 0}
    for key in range(10):
        assert node.report(line("a line"), key=str(key)).status == 204
    assert len(narrow.join_log(node.join_id)["lines"]) == 10
