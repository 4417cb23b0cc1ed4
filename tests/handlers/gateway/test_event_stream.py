from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import pytest

from handlers.gateway import protocol, server
from handlers.gateway.event_stream import OPENING
from handlers.gateway.protocol import WAITING_BYTES, GatewayProtocol
from storage.errors import Unavailable
from tests.handlers.gateway.certificates import Certificates
from tests.handlers.gateway.gate_api import CODE, Gate, gate_api
from tests.handlers.gateway.serving import Served, ends, over_tls
from tests.support.wire import Answer, ConnectionEnded, Wire, message, plain

FOLLOW = message("GET", "/v1/gate/events", CODE)
LARGE = bytes(WAITING_BYTES)


class Source:
    """Gives what is put into it, from any thread, and notes when it is closed."""

    def __init__(self, served: Served) -> None:
        self._loop = served.loop
        self._queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()
        self.closed = threading.Event()
        self.given = 0
        self.lines_before = len(served.lines())

    def put(self, *items: bytes | BaseException | None) -> None:
        for item in items:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            while (item := await self._queue.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                self.given += 1
                yield item
        finally:
            self.closed.set()

    async def for_ever(self) -> AsyncIterator[bytes]:
        try:
            while True:
                self.given += 1
                yield LARGE
        finally:
            self.closed.set()


class Follower(Wire):
    """A connection on which a stream is read, chunk by chunk (RFC 9112, section 7.1)."""

    def __enter__(self) -> Self:
        self.write(FOLLOW)
        self.head = self.read("HEAD")
        assert self.head.status == 200, self.head
        return self

    def chunk(self) -> bytes:
        while b"\r\n" not in self._received:
            self._more()
        size = int(self._received.partition(b"\r\n")[0], 16)
        whole = self._received.index(b"\r\n") + 2 + size + 2
        while len(self._received) < whole:
            self._more()
        chunk, self._received = self._received[whole - 2 - size : whole - 2], self._received[whole:]
        return chunk

    def is_cut_off(self) -> bool:
        """Whether the connection ends before the stream does."""
        try:
            while self.chunk():
                pass
        except (ConnectionEnded, ConnectionError, ssl.SSLError):
            return True
        return False


@pytest.fixture(params=["plain", "tls"], scope="module")
def wrap(request: pytest.FixtureRequest, certificates: Certificates) -> Any:
    if request.param == "plain":
        return plain
    return over_tls(certificates.client(ssl.TLSVersion.TLSv1_3, certificate=False))


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate()


@contextlib.contextmanager
def serving(gate: Gate, wrap: Any, certificates: Certificates) -> Iterator[Served]:
    with Served("installer", None if wrap is plain else certificates.server(), apis=[gate_api(gate)]) as served:
        yield served


@pytest.fixture(scope="module")
def served(wrap: Any, gate: Gate, certificates: Certificates) -> Iterator[Served]:
    with serving(gate, wrap, certificates) as served:
        yield served


@pytest.fixture
def source(served: Served, gate: Gate) -> Iterator[Source]:
    made = Source(served)
    gate.source = made.chunks
    yield made
    # A stream that is still open ends, so that the next test begins without one.
    made.put(None)
    served.wait_until(lambda: not served.server.server_state.tasks)


def connections(served: Served) -> list[GatewayProtocol]:
    return [each for each in served.server.server_state.connections if isinstance(each, GatewayProtocol)]


def request_line(served: Served, source: Source) -> dict[str, Any]:
    served.wait_until(lambda: len(served.lines()) > source.lines_before)
    return served.lines()[source.lines_before]


def test_the_first_bytes_come_before_the_first_event(served: Served, source: Source, wrap: Any) -> None:
    with Follower(served.port, wrap) as follower:
        assert follower.chunk() == OPENING == b": gatehouse\n\nretry: 2000\n\n"
        assert follower.head.header("Content-Type") == "text/event-stream"
        assert follower.head.header("Cache-Control") == "no-store"
        assert follower.head.header("Content-Length") is None
        assert follower.head.header("X-Request-Id")
        assert source.given == 0


def test_each_chunk_comes_as_it_is_given_and_then_the_connection_goes_on(
    served: Served, source: Source, wrap: Any
) -> None:
    with Follower(served.port, wrap) as follower:
        follower.chunk()
        for chunk in (b"id: 1\n\n", b":\n\n", LARGE):
            source.put(chunk)
            assert follower.chunk() == chunk
        source.put(None)
        assert follower.chunk() == b""
        assert source.closed.is_set()
        line = request_line(served, source)
        assert (line["operation"], line["status"]) == ("gate.follow", 200)
        follower.write(message("GET", "/v1/gate", CODE))
        assert follower.read().status == 200
    assert b'gatehouse_requests_total{operation="gate.follow",status="200"}' in served.metrics.render()


def test_a_stream_is_logged_with_the_time_that_it_was_open(served: Served, source: Source, wrap: Any) -> None:
    begun = time.perf_counter()
    with Follower(served.port, wrap) as follower:
        served.wait_until(lambda: time.perf_counter() - begun > 0.05)
        opened = time.perf_counter()
        follower.chunk()
        source.put(None)
        follower.chunk()
    assert request_line(served, source)["milliseconds"] > (opened - begun) * 500


@pytest.mark.parametrize("wrap", ["tls"], indirect=True)
def test_what_waits_in_the_source_of_one_who_leaves_is_closed_at_once(
    served: Served, source: Source, wrap: Any
) -> None:
    with Follower(served.port, wrap) as follower:
        follower.chunk()
    assert source.closed.wait(1)
    assert request_line(served, source)["status"] == 200
    served.wait_until(lambda: not served.server.server_state.tasks)


def test_one_who_breaks_off_is_noticed_at_once(served: Served, source: Source, wrap: Any) -> None:
    with Follower(served.port, wrap) as follower:
        follower.chunk()
        # A connection that is closed so is reset.
        follower.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert source.closed.wait(1)
    served.wait_until(lambda: not served.server.server_state.tasks)


def test_one_who_leaves_while_much_waits_for_it_is_noticed(served: Served, gate: Gate, wrap: Any) -> None:
    source = Source(served)
    gate.source = source.for_ever
    with Follower(served.port, wrap) as follower:
        follower.chunk()
        follower.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert source.closed.wait(1)
    served.wait_until(lambda: not served.server.server_state.tasks)


def test_a_head_request_gets_the_headers_and_the_end(served: Served, source: Source, wrap: Any) -> None:
    with Wire(served.port, wrap) as wire:
        for _ in range(2):
            wire.write(message("HEAD", "/v1/gate/events", CODE))
            answer = wire.read("HEAD")
            assert (answer.status, answer.header("Content-Type")) == (200, "text/event-stream")
    assert source.given == 0


@pytest.mark.parametrize(
    ("error", "level"),
    [(ValueError("secret"), logging.ERROR), (Unavailable("gone"), logging.WARNING)],
    ids=["a fault", "an outage"],
)
def test_a_stream_that_fails_has_no_end_and_is_logged_once(
    error: Exception, level: int, served: Served, source: Source, wrap: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with Follower(served.port, wrap) as follower:
        follower.chunk()
        source.put(b"id: 1\n\n", error)
        assert follower.chunk() == b"id: 1\n\n"
        assert follower.is_cut_off()
    assert request_line(served, source)["status"] == 200
    assert [record.levelno for record in caplog.records] == [level]


def test_one_who_takes_nothing_is_cut_off_and_little_waits_for_it(
    served: Served, gate: Gate, wrap: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "TAKE_SECONDS", 0.3)
    source = Source(served)
    gate.source = source.for_ever
    with Follower(served.port, wrap) as follower:
        follower.chunk()
        (connection,) = connections(served)
        waiting = 0
        while not source.closed.wait(0.01):
            waiting = max(waiting, connection.transport.get_write_buffer_size())
        assert 0 < waiting < 3 * WAITING_BYTES
        served.wait_until(lambda: not served.server.server_state.tasks)
        assert follower.is_cut_off()
    assert request_line(served, source)["status"] == 200


def test_a_request_behind_a_stream_waits_for_its_end(served: Served, source: Source, wrap: Any) -> None:
    with Follower(served.port, wrap) as follower:
        follower.write(message("GET", "/v1/gate", CODE))
        follower.chunk()
        source.put(b"id: 1\n\n", None)
        assert [follower.chunk(), follower.chunk()] == [b"id: 1\n\n", b""]
        answer: Answer = follower.read()
        assert answer.status == 200


def test_a_body_that_comes_with_the_request_is_dropped(served: Served, source: Source, wrap: Any) -> None:
    with Wire(served.port, wrap) as wire:
        wire.write(message("GET", "/v1/gate/events", CODE, body=bytes(100_000)))
        assert wire.read("HEAD").status == 200
        source.put(None)
        wire.socket.settimeout(5)
        while not wire._received.endswith(b"0\r\n\r\n"):
            wire._more()


def test_at_the_stop_those_who_read_get_the_end_and_the_others_are_cut_off(
    wrap: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "STOP_SECONDS", 0.2)
    gate = Gate()
    with serving(gate, wrap, certificates) as served:
        reading, stuck = Source(served), Source(served)
        sources = [reading.chunks(), stuck.for_ever()]
        gate.source = lambda: sources.pop(0)
        with Follower(served.port, wrap) as reader, Follower(served.port, wrap) as sleeper:
            reader.chunk()
            sleeper.chunk()
            served.wait_until(lambda: any(each.flow.write_paused for each in connections(served)))
            served.server.should_exit = True
            reading.put(b"the last", None)
            assert reader.chunk() == b"the last"
            assert reader.chunk() == b""
            assert ends(reader)
            assert stuck.closed.wait(2)
    assert caplog.records == []
    assert [line["status"] for line in served.lines()] == [200, 200]


def test_a_stream_that_does_not_end_at_the_stop_is_cut_off_without_an_end(
    wrap: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STOP_SECONDS", 0.1)
    gate = Gate()
    with serving(gate, wrap, certificates) as served:
        source = Source(served)
        gate.source = source.chunks
        with Follower(served.port, wrap) as follower:
            follower.chunk()
            served.server.should_exit = True
            assert follower.is_cut_off()
            assert source.closed.wait(2)
    assert [record.exc_info for record in caplog.records] == [None]


@pytest.mark.parametrize("wrap", ["plain"], indirect=True)
def test_one_who_has_closed_its_half_reads_on(served: Served, source: Source, wrap: Any) -> None:
    with Follower(served.port, wrap) as follower:
        follower.socket.shutdown(socket.SHUT_WR)
        follower.chunk()
        source.put(b"id: 1\n\n", None)
        assert [follower.chunk(), follower.chunk()] == [b"id: 1\n\n", b""]
        assert ends(follower)
