from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handlers.gateway import server
from handlers.gateway.server import bind
from tests.handlers.gateway.certificates import Certificates
from tests.handlers.gateway.serving import JSON, OPERATOR, Served, ends, over_tls
from tests.support.wire import PATIENCE_SECONDS, Wire, message

LIVE = message("GET", "/v1/items/a")


class Child:
    """A process with both listeners."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.handlers.gateway.two_listeners", str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ports = json.loads(self.line())
        self.control, self.join = ports["control"], ports["join"]

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, list[dict[str, Any]]]:
        """Return the exit status and the log."""
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, [json.loads(line) for line in log.splitlines()]


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    started = Child(tmp_path)
    yield started
    if started.process.poll() is None:
        started.process.kill()
    started.process.communicate()


def accepting_anyone() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_listeners_stop_together_whatever_their_connections_are_at(child: Child, number: signal.Signals) -> None:
    tls = over_tls(accepting_anyone())
    with (
        Wire(child.control) as idle,
        Wire(child.join, tls) as idle_over_tls,
        Wire(child.control) as new,
        Wire(child.join) as before_its_handshake,
        Wire(child.join) as in_its_handshake,
        Wire(child.control) as in_header,
        Wire(child.control) as in_body,
    ):
        for wire in (idle, idle_over_tls):
            wire.write(message("GET", "/v1/door", OPERATOR))
            assert wire.read().status in {200, 401}
        in_its_handshake.write(b"\x16\x03\x01")
        in_header.write(LIVE[:-3])
        in_body.write(message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON, "Content-Length": "100"}) + b"{")
        idle.write(LIVE)
        assert idle.read().status == 200
        status, log = child.stop(number)
        assert status == 0
        assert all(ends(wire) for wire in (idle, idle_over_tls, new, in_header, in_body))
        assert all(ends(wire) for wire in (before_its_handshake, in_its_handshake))
    assert [line["event"] for line in log] == ["request"] * len(log)
    assert sorted(line["status"] for line in log) == [0, 200, 200, 401]


def test_a_request_that_is_being_answered_at_the_stop_gets_its_answer(child: Child) -> None:
    with Wire(child.control) as wire:
        wire.write(message("GET", "/v1/frail"))
        assert child.line() == "entered\n"
        status, log = child.stop()
        assert wire.read().status == 200
        assert ends(wire)
    assert status == 0
    assert [line["status"] for line in log] == [200]


def test_a_request_that_outlasts_the_stop_is_answered_with_the_failure(child: Child) -> None:
    with Wire(child.control) as wire:
        wire.write(message("GET", "/v1/misbehave"))
        assert child.line() == "entered\n"
        status, log = child.stop()
        answer = wire.read()
        assert answer.outcome == (500, "runtime.failure")
        assert answer.header("X-Request-Id") == answer.json["traceId"]
        assert ends(wire)
    assert status == 0
    assert "asyncio.exceptions.CancelledError" in json.dumps(log)
    assert log[-1]["status"] == 500


def test_a_body_that_comes_in_time_is_still_taken_at_the_stop(child: Child) -> None:
    with Wire(child.control) as wire, Wire(child.control) as other:
        sent = message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON}, b'{"name":"a","count":1}')
        wire.write(sent[:-5])
        other.write(LIVE)
        assert other.read().status == 200
        child.process.send_signal(signal.SIGTERM)
        assert ends(other)
        wire.write(sent[-5:])
        assert wire.read().status == 204
    assert child.stop()[0] == 0


def test_a_tls_handshake_has_no_more_time_than_a_header(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)
    with Served("join", certificates.server()) as served, Wire(served.port) as wire:
        wire.write(b"\x16\x03\x01")
        assert ends(wire)


def test_what_is_no_tls_is_not_answered_on_a_listener_with_tls(join: Served) -> None:
    with Wire(join.port) as wire:
        wire.write(LIVE)
        try:
            answer = wire.socket.recv(1_000)
        except ConnectionError:
            answer = b""
        assert not answer.startswith(b"HTTP")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_free_port_is_taken_where_none_is_asked_for(host: str) -> None:
    with bind(host, 0) as opened:
        assert opened.getsockname()[1] > 0
        with socket.create_connection(opened.getsockname()[:2]):
            pass


def test_a_port_that_is_taken_is_refused() -> None:
    with bind("127.0.0.1", 0) as opened, pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", opened.getsockname()[1])
