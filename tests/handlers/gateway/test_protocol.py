from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import select
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from handlers.gateway import protocol
from handlers.gateway.answers import Rendered
from handlers.gateway.exchange import CONNECTION, FAULT
from handlers.gateway.protocol import GatewayProtocol
from tests.handlers.gateway.certificates import Certificates
from tests.handlers.gateway.serving import JSON, OPERATOR, Served, ends, over_tls
from tests.support.programs import needs
from tests.support.wire import PATIENCE_SECONDS, Answer, Wire, message, plain

HOST = b"Host: shop.test\r\n"
ITEM = json.dumps({"name": "lamp", "count": 3}).encode()
FIRST = message("GET", "/v1/items/a")
# What is answered with several thousand bytes.
PAGE = message("GET", "/openapi/shop.json")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n".encode()


def refused(answer: Answer, trace_member: str = "traceId") -> bool:
    return (
        answer.outcome == (400, "request.invalid" if trace_member == "traceId" else "INVALID_INPUT")
        and answer.json[trace_member] == answer.header("X-Request-Id")
        and answer.header("Connection") == "close"
    )


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"FOO /v1/items HTTP/1.1\r\n" + HOST + b"\r\n", id="an unknown method"),
        pytest.param(b"get /v1/items HTTP/1.1\r\n" + HOST + b"\r\n", id="a method in lower case"),
        pytest.param(b"GET /v1/items HTTP/2.0\r\n" + HOST + b"\r\n", id="HTTP/2.0"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2 with prior knowledge"),
        pytest.param(b"GET /v1/items\r\n\r\n", id="HTTP/0.9"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", id="a TLS handshake"),
        pytest.param(b"GET /v1/\xc3\xb6 HTTP/1.1\r\n" + HOST + b"\r\n", id="raw UTF-8 in the path"),
        pytest.param(b"GET /v1/items?a=\xff HTTP/1.1\r\n" + HOST + b"\r\n", id="a raw byte in the query"),
        pytest.param(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", id="a path of 70 kB"),
        pytest.param(b"GET /v1/items#top HTTP/1.1\r\n" + HOST + b"\r\n", id="a fragment"),
        pytest.param(b"GET http://shop.test/v1/items HTTP/1.1\r\n" + HOST + b"\r\n", id="absolute form"),
        pytest.param(b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", id="asterisk form"),
        pytest.param(b"CONNECT shop.test:80 HTTP/1.1\r\n" + HOST + b"\r\n", id="authority form"),
        pytest.param(b"GET shop.test:80 HTTP/1.1\r\n" + HOST + b"\r\n", id="authority form of another method"),
        pytest.param(b"GET /v1/items HTTP/1.1\r\n\r\n", id="no Host"),
        pytest.param(b"GET /v1/items HTTP/1.1\r\n" + HOST + HOST + b"\r\n", id="two Hosts"),
        pytest.param(b"GET /v1/items HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n", id="NUL in a header"),
        pytest.param(b"GET /v1/items HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", id="a folded header"),
        pytest.param(b"GET /v1/items HTTP/1.1\r\n" + HOST + b"X : a\r\n\r\n", id="white space before a colon"),
        pytest.param(
            b"POST /v1/sealed HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
            id="two Content-Lengths",
        ),
        pytest.param(
            b"POST /v1/sealed HTTP/1.1\r\n"
            + HOST
            + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="Content-Length and Transfer-Encoding",
        ),
        pytest.param(
            b"POST /v1/sealed HTTP/1.1\r\n" + HOST + b"Content-Length: +2\r\n\r\n{}", id="a signed Content-Length"
        ),
        pytest.param(
            b"POST /v1/sealed HTTP/1.1\r\n" + HOST + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n{}",
            id="a Content-Length of 5,000 digits",
        ),
        pytest.param(
            b"POST /v1/sealed HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n", id="an unframed body"
        ),
        pytest.param(
            b"POST /v1/sealed HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
            id="a chunk size that is no number",
        ),
    ],
)
@pytest.mark.usefixtures("short_linger")
def test_what_is_not_well_formed_is_a_problem_and_the_end_of_the_connection(control: Served, sent: bytes) -> None:
    with control.wire() as wire:
        wire.write(sent)
        assert refused(wire.read())
        assert ends(wire)
    assert control.lines()[-1]["status"] == 400


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        (b"http://shop.test/v1/join/nodes", {}),
        (b"/v1/join/nodes#", {}),
        (b"/v1/%6aoin/nodes#", {}),
        (b"/v1/join/nodes", {"X ": "a"}),
        (b"/v1/join/nodes", {"X": "\0"}),
    ],
)
def test_a_malformed_request_is_answered_in_the_shape_of_its_path(
    control: Served, target: bytes, fields: dict[str, str]
) -> None:
    answer = control.ask("GET", target, fields)
    assert refused(answer, "requestId")
    assert answer.json["errors"] == [{"field": "", "message": answer.json["detail"]}]


def test_a_malformed_request_keeps_its_trace(control: Served) -> None:
    for fields in (TRACEPARENT + b"X: a\r\nY : a\r\n", TRACEPARENT + b"X: \x00\r\n"):
        with control.wire() as wire:
            wire.write(b"GET / HTTP/1.1\r\n" + HOST + fields + b"\r\n")
            assert wire.read().json["traceId"] == TRACE


def test_a_fault_does_not_take_the_trace_of_the_request_before(control: Served) -> None:
    with control.wire() as wire:
        wire.write(b"GET /v1/items/a HTTP/1.1\r\n" + HOST + TRACEPARENT + b"\r\n")
        assert wire.read().header("X-Request-Id") == TRACE
        wire.write(b"\x00\r\n\r\n")
        assert wire.read().json["traceId"] != TRACE


def test_a_request_of_http_1_0_needs_no_host_and_ends_the_connection(control: Served) -> None:
    with control.wire() as wire:
        wire.write(b"GET /v1/items/a HTTP/1.0\r\n\r\n")
        answer = wire.read()
        assert (answer.status, answer.header("Connection")) == (200, "close")
        assert ends(wire)


def test_a_client_gets_the_answer_to_a_malformed_request_although_it_is_still_sending(control: Served) -> None:
    with control.wire() as wire:
        wire.write(b"FOO / HTTP/1.1\r\n" + HOST + b"\r\n")
        for _ in range(8):
            wire.write(b"a" * 65_536)
        assert refused(wire.read())


@pytest.mark.usefixtures("short_linger")
def test_what_was_well_formed_before_a_fault_is_answered_first(control: Served) -> None:
    with control.wire() as wire:
        wire.write(
            b"GET /v1/items/a HTTP/1.1\r\n" + HOST + b"\r\nGET /v1/items/b HTTP/1.1\r\n" + HOST + b"\r\n!\r\n\r\n"
        )
        assert [wire.read().status for _ in range(2)] == [200, 200]
        assert refused(wire.read())
        assert ends(wire)


def test_pipelined_requests_are_answered_in_their_order(control: Served) -> None:
    with control.wire() as wire:
        wire.write(b"".join(message("GET", f"/v1/items/{number}") for number in range(50)))
        assert [wire.read().json["values"]["itemId"] for _ in range(50)] == [str(number) for number in range(50)]


def test_requests_do_not_pile_up_behind_answers_that_nobody_reads(control: Served) -> None:
    with Wire(control.port, buffer=4_096) as wire:
        sender = threading.Thread(target=_send_until_it_is_closed, args=(wire, PAGE * 100_000))
        sender.start()
        control.wait_until(lambda: any(each.flow.write_paused for each in _connections(control)))
        control.wait_until(lambda: any(each.flow.read_paused for each in _connections(control)))
        (connection,) = _connections(control)
        # What came with one read of the socket waits; without a bound it would be most of the hundred thousand.
        assert 0 < len(connection.pipeline) < 25_000
        wire.socket.shutdown(socket.SHUT_RDWR)
        sender.join(PATIENCE_SECONDS)
    control.wait_until(lambda: not _connections(control))
    assert not connection.pipeline


def _connections(served: Served) -> list[Any]:
    return list(served.server.server_state.connections)


def _send_until_it_is_closed(wire: Wire, data: bytes) -> None:
    with contextlib.suppress(OSError):
        wire.write(data)


def test_leading_zeros_do_not_change_a_length(control: Served) -> None:
    with control.wire() as wire:
        length = "0" * 5_000 + str(len(ITEM))
        wire.write(message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON, "Content-Length": length}) + ITEM)
        assert wire.read().status == 204


def test_a_request_in_single_bytes_is_a_request(control: Served) -> None:
    with control.wire() as wire:
        for byte in message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON}, ITEM):
            wire.write(bytes([byte]))
        assert wire.read().status == 204


@pytest.mark.parametrize(
    "offer",
    [
        {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQCAAAAAAIAAAAA"},
        {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "eA=="},
    ],
)
def test_an_offer_to_upgrade_is_ignored_and_the_request_served(control: Served, offer: dict[str, str]) -> None:
    with control.wire() as wire:
        wire.write(message("GET", "/v1/items/a", offer) + message("GET", "/v1/items/b"))
        assert [wire.read().json["values"]["itemId"] for _ in range(2)] == ["a", "b"]
        sent = message("PUT", "/v1/items/quiet", {**offer, **OPERATOR, **JSON}, ITEM)
        wire.write(sent)
        assert wire.read().status == 204
        wire.write(sent[:-9])
        wire.write(sent[-9:] + message("GET", "/v1/items/c"))
        assert wire.read().status == 204
        assert wire.read().json["values"]["itemId"] == "c"
        wire.write(message("PUT", "/v1/items/quiet", {**offer, **OPERATOR, **JSON}, chunks=[ITEM[:4], ITEM[4:]]))
        assert wire.read().status == 204


@needs("curl")
def test_curl_may_offer_http_2_with_a_body(control: Served) -> None:
    url = f"http://127.0.0.1:{control.port}/v1/items/a"
    command = ["curl", "--http2", "-sS", "-w", "%{http_code}", "--json", '{"text": "hello"}', url]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"202"
    assert control.shop.stored[-1].text == "hello"


def test_a_client_that_expects_100_continue_gets_it_before_its_body_is_read(control: Served) -> None:
    with control.wire() as wire:
        head, _, body = message(
            "PUT", "/v1/items/quiet", {**OPERATOR, **JSON, "Expect": "100-continue"}, ITEM
        ).partition(b"\r\n\r\n")
        wire.write(head + b"\r\n\r\n")
        assert wire.read().status == 100
        wire.write(body)
        assert wire.read().status == 204


def test_a_refused_client_that_expects_100_continue_need_not_send_its_body(control: Served) -> None:
    with control.wire() as wire:
        sent = message("PUT", "/v1/items/quiet", {**JSON, "Expect": "100-continue"}, ITEM)
        wire.write(sent.removesuffix(ITEM))
        answer = wire.read()
        assert (answer.status, answer.header("Connection")) == (401, "close")


@pytest.mark.parametrize("chunk", [1_000, 10_000, 200_000])
def test_a_header_section_has_a_bound_however_it_arrives(control: Served, chunk: int) -> None:
    head = b"GET /v1/items/a HTTP/1.1\r\n" + HOST
    for fields in (b"X: " + b"a" * protocol.HEADER_BYTES, b"X: a\r\n" * (protocol.HEADER_BYTES // 5)):
        with control.wire() as wire:
            sent = head + fields + b"\r\n\r\n"
            for start in range(0, len(sent), chunk):
                wire.write(sent[start : start + chunk])
            assert refused(wire.read())


def test_empty_lines_before_a_request_have_a_bound(control: Served) -> None:
    for before in (b"", FIRST):
        with control.wire() as wire:
            if before:
                wire.write(before)
                assert wire.read().status == 200
            for _ in range(9):
                wire.write(b"\r\n" * 4_096)
            assert refused(wire.read())


def test_a_header_section_within_its_bound_is_served(control: Served) -> None:
    with control.wire() as wire:
        sent = message("GET", "/v1/items/a", {"X": "a" * (protocol.HEADER_BYTES - 200)})
        for start in range(0, len(sent), 7_000):
            wire.write(sent[start : start + 7_000])
        assert wire.read().status == 200


def test_trailers_have_a_bound(control: Served) -> None:
    with control.wire() as wire:
        head = message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON}, chunks=[ITEM])[:-2]
        wire.write(head + b"X: a\r\n")
        # Trailers are counted from the piece on that comes after the body's, and a piece has up to 256 KiB.
        for _ in range(64):
            wire.write(b"X: " + b"a" * 8_000 + b"\r\n")
        assert refused(wire.read())


def test_trailers_are_no_headers(control: Served) -> None:
    with control.wire() as wire:
        sent = message("PUT", "/v1/items/quiet", JSON, chunks=[ITEM])
        wire.write(sent[:-2] + b"Authorization: Bearer let-me-in\r\ntraceparent: x\r\n\r\n")
        assert wire.read().status == 401


def test_a_client_that_has_closed_its_half_gets_the_answers_that_it_is_owed(control: Served) -> None:
    with control.wire() as wire:
        wire.write(message("GET", "/v1/items/a") + message("GET", "/v1/items/b"))
        wire.socket.shutdown(socket.SHUT_WR)
        assert [wire.read().json["values"]["itemId"] for _ in range(2)] == ["a", "b"]
        assert ends(wire)


def test_a_client_that_has_closed_its_half_after_a_fault_is_told_of_it() -> None:
    async def wait() -> Any:
        entered.set()
        await left.wait()
        return await served.shop.behave()

    entered, left = threading.Event(), asyncio.Event()
    with Served() as served, served.wire() as wire:
        served.shop.misdeed = wait
        wire.write(message("GET", "/v1/misbehave") + b"FOO / HTTP/1.1\r\n" + HOST + b"\r\n")
        wire.socket.shutdown(socket.SHUT_WR)
        assert entered.wait(PATIENCE_SECONDS)
        served.loop.call_soon_threadsafe(left.set)
        assert wire.read().status == 200
        assert refused(wire.read())
        assert ends(wire)


@pytest.mark.parametrize("cut", [1, len(ITEM), len(ITEM) + 10])
def test_a_client_that_has_closed_its_half_within_a_request_is_owed_nothing(control: Served, cut: int) -> None:
    with control.wire() as wire:
        wire.write(message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON}, ITEM)[:-cut])
        wire.socket.shutdown(socket.SHUT_WR)
        assert ends(wire)


def test_a_fault_behind_an_answer_that_has_begun_ends_the_connection_with_the_answer() -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        while FAULT not in scope:
            await receive()
        await send({"type": "http.response.body", "body": b"b"})

    served = Served(app=stream)
    served.server.config.timeout_keep_alive = 3_600
    with served, served.wire() as wire:
        wire.write(message("POST", "/", {"Transfer-Encoding": "chunked"}) + b"!\r\n")
        assert wire.read().body == b"ab"
        assert ends(wire)


def lose_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.2)


def is_cut_off(wire: Wire, *sent: bytes) -> bool:
    """Send one thing after another, slowly, until the server ends the connection; tell whether it gave no answer."""
    for each in sent:
        try:
            wire.write(each)
        except ConnectionError:
            return True
        if select.select([wire.socket], [], [], 0.01)[0]:
            break
    return ends(wire)


BODY = message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON, "Content-Length": "4000"})


@pytest.mark.parametrize("before", [pytest.param(b"", id="first"), pytest.param(FIRST, id="kept alive")])
@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"GET /v1/items/a HT", id="header"),
        pytest.param(b"\r\n", id="empty lines"),
        pytest.param(BODY, id="body"),
        pytest.param(BODY + b"{", id="begun body"),
    ],
)
def test_a_slow_sender_is_cut_off(
    control: Served, before: bytes, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = len(control.shop.stored)
    if not before:
        lose_patience(monkeypatch)
    with control.wire() as wire:
        if before:
            wire.write(before)
            assert wire.read().status == 200
            lose_patience(monkeypatch)
        assert is_cut_off(wire, begun)
    assert len(control.shop.stored) == stored


def test_a_connection_that_sends_nothing_is_cut_off(control: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_patience(monkeypatch)
    with control.wire() as wire:
        assert ends(wire)


def test_a_request_that_begins_in_the_packet_of_another_has_no_more_time(
    control: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with control.wire() as wire:
        wire.write(FIRST)
        assert wire.read().status == 200
        lose_patience(monkeypatch)
        wire.write(FIRST + b"GET /v1/items/b HT")
        assert wire.read().status == 200
        assert ends(wire)


@pytest.mark.parametrize(
    ("begun", "drop"),
    [
        pytest.param(b"GET /v1/items/a HTTP/1.1\r\nX: ", b"a", id="header"),
        pytest.param(b"\r\n", b"\r\n", id="empty lines"),
        pytest.param(BODY, b" ", id="body"),
    ],
)
def test_a_drip_does_not_win_time(control: Served, begun: bytes, drop: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_patience(monkeypatch)
    with control.wire() as wire:
        assert is_cut_off(wire, begun, *[drop] * 3_000)


def test_an_idle_connection_is_kept_beyond_the_time_for_a_header(
    control: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with control.wire() as idle:
        idle.write(FIRST)
        assert idle.read().status == 200
        lose_patience(monkeypatch)
        with control.wire() as other:
            assert ends(other)
        idle.write(FIRST)
        assert idle.read().status == 200


def test_a_sender_is_not_late_while_it_is_the_server_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    ends_late, late = GatewayProtocol._too_slow, asyncio.Event()

    def note(self: GatewayProtocol, seconds: float) -> None:
        ends_late(self, seconds)
        late.set()

    async def read_late(_: Scope, receive: Receive, send: Send) -> None:
        await late.wait()
        while (await receive())["more_body"]:
            pass
        await Rendered(200, [(b"content-length", b"0")], b"").send(send)

    monkeypatch.setattr(GatewayProtocol, "_too_slow", note)
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.2)
    body = b"a" * 200_000
    with Served(app=read_late) as served, served.wire() as wire:
        wire.write(message("POST", "/", {"Content-Length": str(len(body) + 1)}) + body)
        served.wait_until(late.is_set)
        wire.write(b"a")
        assert wire.read().status == 200


LARGE = 16 << 20


async def answer_at_length(_: Scope, __: Receive, send: Send) -> None:
    await Rendered(200, [(b"content-length", b"%d" % LARGE)], b"a" * LARGE).send(send)


@pytest.mark.parametrize("end", ["close", "keep-alive"])
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_a_client_that_does_not_read_is_cut_off(
    secure: bool, end: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "TAKE_SECONDS", 0.1)
    wrap = over_tls(certificates.client(ssl.TLSVersion.TLSv1_3, certificate=False)) if secure else plain
    with (
        Served(app=answer_at_length, tls=certificates.server() if secure else None) as served,
        Wire(served.port, wrap) as wire,
    ):
        served.wait_until(lambda: bool(_connections(served)))
        wire.write(message("GET", "/", {"Connection": end}))
        served.wait_until(lambda: not _connections(served))


def test_a_client_that_reads_slowly_gets_the_whole_answer() -> None:
    async def answer_at_once(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})
        await send({"type": "http.response.body", "body": b"a" * LARGE})

    with Served(app=answer_at_once) as served, served.wire() as wire:
        wire.write(message("GET", "/"))
        served.wait_until(lambda: any(each.flow.write_paused for each in _connections(served)))
        (connection,) = _connections(served)
        unsent = connection.transport.get_write_buffer_size()
        confirmed = protocol._confirmed(connection.transport)
        read = len(wire.socket.recv(1))
        while connection.transport.get_write_buffer_size() == unsent:
            read += len(wire.socket.recv(65_536))
        served.loop.call_soon_threadsafe(connection._stall, confirmed)
        while read < LARGE and (piece := wire.socket.recv(65_536)):
            read += len(piece)
        assert read >= LARGE


def test_a_client_that_leaves_over_tls_leaves_nothing_in_the_log(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def wait() -> Any:
        entered.set()
        await left.wait()
        return await served.shop.behave()

    entered, left = threading.Event(), asyncio.Event()
    with Served("control", certificates.server()) as served:
        served.shop.misdeed = wait
        with Wire(served.port, over_tls(certificates.client(ssl.TLSVersion.TLSv1_3, certificate=False))) as wire:
            wire.write(message("GET", "/v1/misbehave"))
            assert entered.wait(PATIENCE_SECONDS)
            assert isinstance(wire.socket, ssl.SSLSocket)
            wire.socket.unwrap()
        served.wait_until(lambda: not served.server.server_state.connections)
        served.loop.call_soon_threadsafe(left.set)
        served.wait_until(lambda: not served.server.server_state.tasks)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def sends_until_the_end(connection: socket.socket) -> int:
    sent = 0
    with contextlib.suppress(OSError):
        while sent < 1 << 31:
            sent += connection.send(b"a" * 65_536)
    return sent


@pytest.mark.usefixtures("short_linger")
def test_over_tls_a_client_gets_its_answer_and_is_cut_off_where_it_goes_on_sending(
    join: Served, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "STOP_SECONDS", 0.05)
    with Wire(join.port, over_tls(certificates.client(ssl.TLSVersion.TLSv1_3, certificate=False))) as wire:
        wire.write(message("POST", "/v1/join/nodes", {"Content-Length": str(1 << 40)}))
        assert wire.read().outcome == (404, "NOT_FOUND")
        assert sends_until_the_end(wire.socket) < 1 << 31


def test_over_tls_a_client_that_is_late_is_cut_off_where_it_goes_on_sending(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.05)
    monkeypatch.setattr(protocol, "STOP_SECONDS", 0.05)
    with (
        Served("control", certificates.server()) as served,
        Wire(served.port, over_tls(certificates.client(ssl.TLSVersion.TLSv1_3, certificate=False))) as wire,
    ):
        wire.write(message("POST", "/v1/uploads", {**JSON, "Content-Length": "100"}) + b"a")
        assert wire.ended()
        assert sends_until_the_end(wire.socket) < 1 << 31


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_over_tls_a_client_that_sends_a_large_body_at_once_gets_the_answer_that_did_not_need_it(
    join: Served, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    with Wire(join.port, over_tls(certificates.client(version, certificate=False))) as wire:
        wire.write(message("POST", "/v1/join/nodes", JSON, b" " * (4 << 20)))
        answer = wire.read()
    assert answer.outcome == (404, "NOT_FOUND")
    assert answer.header("Connection") == "close"


@pytest.mark.parametrize("sent", [FIRST, b"\x16\x03\x01", b""], ids=["plain HTTP", "half a handshake", "nothing"])
def test_what_is_no_handshake_ends_without_an_answer_and_without_a_word(
    join: Served, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", join.port), PATIENCE_SECONDS) as plain:
        plain.sendall(sent)
        plain.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while received := plain.recv(65_536):
                assert b"HTTP" not in received
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_certificate_of_another_authority_ends_the_handshake_without_a_word(
    join: Served,
    certificates: Certificates,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    version: ssl.TLSVersion,
) -> None:
    Certificates(tmp_path)
    context = certificates.client(version, certificate=False)
    context.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
    served = len(join.lines())
    # In TLS 1.3 the client is done before the server has seen its certificate.
    with contextlib.suppress(OSError), Wire(join.port, over_tls(context)) as wire:
        wire.write(message("GET", "/v1/door"))
        assert wire.ended()
    assert len(join.lines()) == served
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def tls_extension(answer: Answer) -> str:
    return str(answer.json["values"]["principal"]) if answer.status == 200 else answer.code


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_client_certificate_is_in_the_scope(
    join: Served, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    with Wire(join.port, over_tls(certificates.client(version, certificate=True))) as wire:
        wire.write(message("GET", "/v1/door"))
        assert tls_extension(wire.read()) == "ClientCertificate"
    assert join.shop.tls is not None
    assert join.shop.tls["client_cert_chain"] == [certificates.client_pem]
    assert join.shop.tls["tls_version"] == {"TLSv1_2": 0x0303, "TLSv1_3": 0x0304}[version.name]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_a_certificate_is_served_as_such(
    join: Served, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    with Wire(join.port, over_tls(certificates.client(version, certificate=False))) as wire:
        wire.write(message("GET", "/v1/door"))
        assert tls_extension(wire.read()) == "certificate.refused"
    assert join.shop.tls is not None
    assert join.shop.tls["client_cert_chain"] == []


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_resumed_session_still_has_its_certificate(
    join: Served, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    context = certificates.client(version, certificate=True)
    with Wire(join.port, over_tls(context)) as wire:
        wire.write(message("GET", "/v1/door"))
        assert tls_extension(wire.read()) == "ClientCertificate"
        assert isinstance(wire.socket, ssl.SSLSocket)
        session = wire.socket.session
    with Wire(join.port, over_tls(context, session)) as wire:
        assert isinstance(wire.socket, ssl.SSLSocket)
        wire.write(message("GET", "/v1/door"))
        assert tls_extension(wire.read()) == "ClientCertificate"
        assert wire.socket.session_reused


def test_a_connection_without_tls_has_no_extension(control: Served) -> None:
    assert control.ask("GET", "/v1/door", OPERATOR).status == 200
    assert control.shop.tls is None


class Large:
    """An application whose answers are too long to be taken at once."""

    taken: GatewayProtocol

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        self.taken = scope[CONNECTION]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(16 << 20), "more_body": True})
        await send({"type": "http.response.body", "body": b"the last"})


def test_an_answer_that_is_taken_little_by_little_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "TAKE_SECONDS", 0.2)
    app = Large()
    with Served(app=app) as served, served.wire() as wire:
        wire.write(FIRST)
        wire.read("HEAD")
        served.wait_until(lambda: app.taken.flow.write_paused)
        paused = time.monotonic()
        # Slowly, but for several times as long as a client may take nothing.
        while time.monotonic() < paused + 0.6:
            wire.socket.recv(1 << 17)
            time.sleep(0.02)
        assert app.taken.flow.write_paused
        end = b""
        while not end.endswith(b"the last\r\n0\r\n\r\n"):
            end = end[-50:] + wire.socket.recv(1 << 20)


def test_an_answer_of_which_nothing_is_taken_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "TAKE_SECONDS", 0.1)
    with Served(app=Large()) as served, served.wire() as wire:
        wire.write(FIRST)
        served.wait_until(lambda: bool(served.server.server_state.connections))
        served.wait_until(lambda: not served.server.server_state.connections)
