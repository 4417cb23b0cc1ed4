from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from handlers.gateway import protocol
from handlers.gateway.pressure import (
    FEW,
    REFUSED,
    REST_SECONDS,
    STALL_SECONDS,
    STANDING_SECONDS,
    Door,
    Pressure,
    Refusal,
)
from tests.handlers.gateway.serving import JSON, OPERATOR, Served
from tests.handlers.gateway.small_api import Shop, small_apis
from tests.support.wire import Wire, message

QUICK = 0.001
SLOW = 0.1
BURST = 2_000
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Pretended:
    """A server that answers `rate` requests a second, in the order in which they came."""

    def __init__(self, rate: float) -> None:
        self.clock = Clock()
        self.pressure = Pressure(self.clock)
        self._seconds = 1 / rate
        self.taken: list[float] = []
        self.refused = 0

    def ask(self, count: int = 1) -> None:
        for _ in range(count):
            if self.pressure.refuses():
                self.refused += 1
            else:
                self.taken.append(self.pressure.take())

    def answer(self, seconds: float | None = None) -> float:
        self.clock.now += self._seconds if seconds is None else seconds
        taken = self.taken.pop(0)
        self.pressure.answered(taken)
        return self.clock.now - taken

    def one_by_one(self, count: int = 200) -> None:
        for _ in range(count):
            self.ask()
            self.answer()


def overloaded(rate: float = 1 / QUICK, seconds: float = 2.0) -> tuple[Pretended, list[float]]:
    """A server after a calm time and then so long at twice its load, and what the last half of the answers took."""
    server = Pretended(rate)
    server.one_by_one()
    took = []
    for _ in range(int(seconds * rate)):
        server.ask(2)
        took.append(server.answer())
    return server, took[len(took) // 2 :]


def test_a_burst_is_taken_whole_and_nothing_is_refused_while_it_drains() -> None:
    server = Pretended(1 / QUICK)
    server.one_by_one()
    server.ask(BURST)
    while server.taken:
        server.answer()
    server.one_by_one()
    assert server.refused == 0


@pytest.mark.parametrize("seconds", [QUICK, SLOW])
def test_few_that_wait_are_never_refused_however_long_it_takes(seconds: float) -> None:
    server = Pretended(1 / seconds)
    server.ask(FEW)
    for _ in range(1_000):
        server.answer()
        server.ask()
    assert server.refused == 0


def test_a_standing_queue_is_refused_and_what_is_taken_goes_on_at_the_full_rate() -> None:
    server, took = overloaded()
    assert server.refused > 0.4 * 2 / QUICK
    assert len(server.taken) + 1 == FEW
    assert max(took) == pytest.approx(FEW * QUICK)


def test_a_server_that_answers_many_at_once_takes_as_many_as_it_answers_before_they_are_late() -> None:
    server = Pretended(1)
    for _ in range(200):
        server.ask()
        server.answer(0.02)
    most = 0
    for _ in range(200):
        server.ask(400)
        most = len(server.taken)
        server.clock.now += 0.02
        for _ in range(min(100, len(server.taken))):
            server.answer(0.0)
    assert server.refused > 0
    assert most > FEW
    assert most == pytest.approx(100 / 0.02 * 5 * 0.02, rel=0.3)


def test_it_is_over_once_nothing_had_to_be_refused_for_a_while() -> None:
    server, _ = overloaded()
    before = server.refused
    while server.taken:
        server.answer()
    server.clock.now += STANDING_SECONDS + REST_SECONDS
    server.ask(BURST)
    assert server.refused == before


def test_where_no_answer_comes_at_all_more_than_few_are_refused_soon() -> None:
    server = Pretended(1 / QUICK)
    server.ask(FEW)
    server.ask()
    assert server.refused == 0
    server.clock.now += 2 * STALL_SECONDS
    server.ask()
    assert server.refused == 1
    assert server.answer() > STALL_SECONDS


def test_what_only_reads_is_let_in_at_any_time() -> None:
    door = Door(_Full(), [], lambda *_: None)
    assert not door.refuses("GET")
    assert not door.refuses("HEAD")
    assert door.refuses("POST")


def test_a_request_counts_once_and_one_that_is_refused_or_reads_not_at_all() -> None:
    server = Pretended(1)
    door = Door(server.pressure, [], lambda *_: None)
    scopes: list[dict[str, Any]] = [
        {"method": "POST"},
        {"method": "GET"},
        {"method": "POST", REFUSED: True},
    ]
    for scope in scopes:
        door.take(scope)
        door.take(scope)
    assert [len(scope) for scope in scopes] == [2, 1, 2]
    for scope in scopes:
        door.let_go(scope)
        door.let_go(scope)
    assert [len(scope) for scope in scopes] == [1, 1, 2]


def test_a_refusal_is_whole_and_bears_the_trace_id_twice() -> None:
    shop = small_apis(Shop())[0]
    answer = Refusal("shop.putItem", shop.catalogue["service.unavailable"]).after(b"HTTP/1.1 503 X\r\n", TRACE)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head
    assert b"x-request-id: " + TRACE.encode() in head
    assert json.loads(body)["traceId"] == TRACE


class _Full(Pressure):
    """Takes nothing."""

    def refuses(self) -> bool:
        return True


ITEM = b'{"name":"lamp","count":3}'
STORING = message("POST", "/v1/sealed", {**JSON, **OPERATOR}, ITEM)
READING = message("GET", "/health")


def test_a_connection_is_kept_after_a_refusal_and_its_next_request_is_answered() -> None:
    with Served(pressure=_Full()) as served, served.wire() as wire:
        for _ in range(3):
            wire.write(STORING)
            assert wire.read().status == 503
            wire.write(READING)
            assert wire.read().status in {200, 404}
        assert served.shop.stored == []


@pytest.mark.parametrize(
    "close",
    [b"HTTP/1.0\r\n", b"HTTP/1.0\r\nConnection: keep-alive\r\n", b"HTTP/1.1\r\nConnection: close\r\n"],
)
def test_one_that_has_to_end_its_connection_is_refused_all_the_same(close: bytes) -> None:
    with Served(pressure=_Full()) as served, served.wire() as wire:
        wire.write(STORING.replace(b"HTTP/1.1\r\n", close))
        assert wire.read().status == 503
        assert wire.ended()


def test_a_client_that_takes_none_of_its_refusals_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "TAKE_SECONDS", 0.1)
    with Served(pressure=_Full()) as served, Wire(served.port, buffer=2048) as wire:
        connections = served.server.server_state.connections
        served.wait_until(lambda: bool(connections))
        (connection,) = connections
        connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        # As many as wait here without holding up the connection.
        wire.write(STORING * 25)
        served.wait_until(lambda: not connections)


def test_what_follows_in_the_same_packet_is_answered_in_its_order() -> None:
    with Served(pressure=_Full()) as served, served.wire() as wire:
        wire.write(STORING + READING + STORING)
        assert [wire.read().status == 503 for _ in range(3)] == [True, False, True]


def test_every_refusal_is_counted() -> None:
    with Served(pressure=_Full()) as served, served.wire() as wire:
        wire.write(STORING)
        assert wire.read().status == 503
        assert b'status="503"' in served.metrics.render()


def test_a_server_that_stops_tells_what_it_has_refused_since_the_last_line(caplog: pytest.LogCaptureFixture) -> None:
    with Served(pressure=_Full()) as served:
        with served.wire() as wire:
            wire.write(STORING)
            assert wire.read().status == 503
        served.stop()
        assert [record.getMessage() for record in caplog.records] == ["overloaded: 1 requests were refused unread"]
