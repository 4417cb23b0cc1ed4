from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import httpx
import pytest

from handlers.gateway.exchange import Exchange, request_target, trace_id
from handlers.gateway.telemetry import Metrics, RequestLog
from tests.handlers.gateway.serving import JSON, OPERATOR, Served, ends, new_listener
from tests.handlers.gateway.small_api import Shop, small_apis
from tests.support.wire import message

ITEM = json.dumps({"name": "lamp", "count": 3}).encode()
FIELDS = {**OPERATOR, **JSON}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([ITEM], id="one chunk"),
        pytest.param([ITEM[:4], ITEM[4:]], id="split in the middle of a key"),
        pytest.param([bytes([byte]) for byte in ITEM], id="a chunk for each byte"),
    ],
)
def test_a_chunked_body_is_the_body_that_content_length_would_have_given(control: Served, chunks: list[bytes]) -> None:
    whole = control.ask("PUT", "/v1/items/new", FIELDS, ITEM)
    in_chunks = control.ask("PUT", "/v1/items/new", FIELDS, chunks=chunks)
    assert (whole.status, whole.body) == (201, in_chunks.body)
    assert whole.status == in_chunks.status
    assert control.shop.stored[-1] == control.shop.stored[-2]


@pytest.mark.parametrize("pause", range(1, len(ITEM), 5))
def test_a_body_may_come_in_two_packets(control: Served, pause: int) -> None:
    with control.wire() as wire:
        sent = message("PUT", "/v1/items/quiet", FIELDS, ITEM)
        wire.write(sent[:-pause])
        wire.write(sent[-pause:])
        assert wire.read().status == 204


def test_an_empty_chunked_body_is_an_empty_body(control: Served) -> None:
    empty = control.ask("PUT", "/v1/items/quiet", FIELDS, b"")
    with control.wire() as wire:
        wire.write(message("PUT", "/v1/items/quiet", {**FIELDS, "Transfer-Encoding": "chunked"}) + b"0\r\n\r\n")
        in_chunks = wire.read()
    assert empty.outcome == in_chunks.outcome == (400, "request.invalid")
    assert empty.json["detail"] == in_chunks.json["detail"]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_cut_off_stores_nothing_and_kills_nothing(
    control: Served, chunked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stored, answered = len(control.shop.stored), len(control.lines())
    sent = message("PUT", "/v1/items/quiet", FIELDS, chunks=[ITEM]) if chunked else b""
    with control.wire() as wire, control.wire() as other:
        wire.write((sent or message("PUT", "/v1/items/quiet", FIELDS, ITEM))[:-3])
        wire.socket.close()
        other.write(message("PUT", "/v1/items/quiet", FIELDS, ITEM))
        assert other.read().status == 204
    control.wait_until(lambda: len(control.lines()) == answered + 2)
    assert {line["status"] for line in control.lines()[answered:]} == {0, 204}
    assert len(control.shop.stored) == stored + 1
    assert not caplog.records


@pytest.mark.usefixtures("short_linger")
def test_a_body_with_a_broken_chunk_stores_nothing(control: Served) -> None:
    stored = len(control.shop.stored)
    with control.wire() as wire:
        wire.write(message("PUT", "/v1/items/quiet", {**FIELDS, "Transfer-Encoding": "chunked"}))
        wire.write(b"%x\r\n%b\r\n" % (len(ITEM), ITEM))
        wire.write(b"!\r\n")
        answer = wire.read()
        assert answer.outcome == (400, "request.invalid")
        assert answer.header("X-Request-Id") == answer.json["traceId"]
        assert ends(wire)
    assert len(control.shop.stored) == stored


def test_a_valid_traceparent_gives_the_trace_id() -> None:
    assert trace_id([f"00-{TRACE}-{PARENT}-01".encode()]) == TRACE
    assert trace_id([f"00-{TRACE}-{PARENT}-ff".encode()]) == TRACE
    assert trace_id([f"cc-{TRACE}-{PARENT}-01".encode()]) == TRACE
    assert trace_id([f"cc-{TRACE}-{PARENT}-01-what-the-future-brings".encode()]) == TRACE


@pytest.mark.parametrize(
    "given",
    [
        [],
        [""],
        [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01"],
        [f"ff-{TRACE}-{PARENT}-01"],
        [f"00-{'0' * 32}-{PARENT}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"00-{TRACE.upper()}-{PARENT}-01"],
        [f"00-{TRACE}-{PARENT.upper()}-01"],
        [f"00-{TRACE[:-1]}-{PARENT}-01"],
        [f"00-{TRACE}-{PARENT}"],
        [f"00-{TRACE}-{PARENT}-1"],
        [f"00-{TRACE}-{PARENT}-0g"],
        [f"00-{TRACE}-{PARENT}-01-"],
        [f"00-{TRACE}-{PARENT}-01-more"],
        [f"cc-{TRACE}-{PARENT}-01more"],
        [f"0-{TRACE}-{PARENT}-01"],
        [f"00_{TRACE}_{PARENT}_01"],
        [f"00-{TRACE}-{PARENT}-01\n"],
        [TRACE],
    ],
)
def test_an_invalid_traceparent_gives_a_random_trace_id(given: list[str]) -> None:
    values = [value.encode() for value in given]
    found = {trace_id(values) for _ in range(100)}
    assert len(found) == 100
    assert TRACE not in found
    assert all(len(each) == 32 and set(each) <= set("0123456789abcdef") for each in found)


@pytest.mark.parametrize(
    ("method", "target", "fields", "body", "status"),
    [
        ("GET", "/v1/items/a", {}, None, 200),
        ("GET", "/docs", {}, None, 200),
        ("GET", "/none", {}, None, 404),
        ("PATCH", "/v1/items", {}, None, 405),
        ("GET", "/v1/items", {}, None, 401),
        ("GET", "/v1/items?limit=0", OPERATOR, None, 400),
        ("PUT", "/v1/items/a", FIELDS, b"{", 400),
        ("PUT", "/v1/items/held", FIELDS, ITEM, 409),
        ("PUT", "/v1/items/a", FIELDS, b"a" * 5_000, 413),
        ("PUT", "/v1/items/a", OPERATOR, ITEM, 415),
        ("GET", "/v1/join/nodes", {}, None, 404),
        ("PUT", "/v1/join/nodes/a", {}, None, 405),
        ("GET", "/v1/items/a#", {}, None, 400),
    ],
)
def test_the_trace_id_is_echoed_on_every_answer(
    control: Served, method: str, target: str, fields: dict[str, str], body: bytes | None, status: int
) -> None:
    answer = control.ask(method, target, {**fields, "traceparent": f"00-{TRACE}-{PARENT}-01"}, body)
    assert answer.status == status
    assert answer.header("X-Request-Id") == TRACE
    if status >= 400:
        member = "requestId" if target.startswith("/v1/join") else "traceId"
        assert answer.json[member] == TRACE
    assert control.lines()[-1]["traceId"] == TRACE


TARGETS = [
    "/v1/items/a",
    "/v1/items/a?x=1",
    "/v1/items/a?x=1&x=%2F&y",
    "/v1/items/a%2Fb",
    "/v1/items/%C3%B6",
    "/v1/items/%7e",
    "/v1/items/~",
    "/v1/items/a?q=a%20b+c%3F?",
    "/v1/it%65ms/a",
]


@pytest.mark.parametrize("target", TARGETS)
def test_the_target_is_the_same_bytes_through_a_socket_and_through_the_test_transport(
    control: Served, target: str
) -> None:
    assert control.ask("PUT", target, FIELDS, ITEM).status == 200
    shop = Shop()
    listener = new_listener("control", small_apis(shop), Metrics(), RequestLog(io.StringIO()))

    async def ask() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(listener), base_url="http://shop.test") as client:
            return (await client.put(target, content=ITEM, headers=FIELDS)).status_code

    assert asyncio.run(ask()) == 200
    assert (control.shop.target, shop.target) == (target.encode(), target.encode())


def test_an_empty_query_is_part_of_the_target(control: Served) -> None:
    assert control.ask("GET", "/v1/items?", OPERATOR).status == 200
    assert control.shop.target == b"/v1/items?"


def test_a_server_that_leaves_the_query_in_the_raw_path_gives_the_same_target() -> None:
    scope = {"path": "/a b", "query_string": b"x=1"}
    assert request_target({**scope, "raw_path": b"/a%20b?x=1"}) == b"/a%20b?x=1"
    assert request_target({**scope, "raw_path": b"/a%20b"}) == b"/a%20b?x=1"


def test_an_exchange_reads_its_body_once() -> None:
    async def receive() -> dict[str, Any]:
        return next(messages)

    received: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request"},
    ]
    messages = iter(received)
    exchange = Exchange({"headers": [], "method": "POST"}, receive)
    exchange.limit = 2
    assert [asyncio.run(exchange.body()) for _ in range(2)] == [b"ab", b"ab"]
