from __future__ import annotations

import asyncio
import json
import select

import pytest
from starlette.types import Message

from handlers.gateway import reply
from handlers.gateway.answers import Rendered
from handlers.gateway.exchange import Exchange
from handlers.gateway.reply import Reply
from tests.handlers.gateway.serving import JSON, OPERATOR, Served, ends
from tests.handlers.gateway.small_api import LARGE_LIMIT, LIMIT
from tests.support.wire import Wire, message

ITEM = json.dumps({"name": "lamp", "count": 3}).encode()
TOO_LONG = b'"' + b"a" * LIMIT + b'"'
FIRST = message("GET", "/v1/items/a")


def test_every_answer_carries_its_request_id(control: Served) -> None:
    for method, target in [("GET", "/v1/items/a"), ("GET", "/none"), ("PUT", "/v1/items"), ("GET", "/docs")]:
        given = control.ask(method, target).header("X-Request-Id")
        assert given is not None
        assert len(given) == 32
        assert given == given.lower()


@pytest.mark.parametrize("chunked", [False, True])
def test_the_connection_is_kept_after_a_body_that_was_read(control: Served, chunked: bool) -> None:
    with control.wire() as wire:
        fields = {**OPERATOR, **JSON}
        sent = message("PUT", "/v1/items/quiet", fields, chunks=[ITEM]) if chunked else None
        wire.write(sent or message("PUT", "/v1/items/quiet", fields, ITEM))
        assert wire.read().header("Connection") is None
        wire.write(FIRST)
        assert wire.read().status == 200


@pytest.mark.parametrize("target", ["/none", "/v1/items", "/v1/items/a"])
def test_the_connection_is_kept_after_a_short_body_that_nobody_read(control: Served, target: str) -> None:
    with control.wire() as wire:
        wire.write(message("PUT", target, JSON, b" " * reply.SHORT_BODY) + FIRST)
        answer = wire.read()
        assert answer.status in {401, 404, 405}
        assert answer.header("Connection") is None
        assert wire.read().status == 200


def test_a_short_body_may_come_after_the_answer_that_did_not_need_it(control: Served) -> None:
    with control.wire() as wire:
        wire.write(message("PUT", "/none", {"Content-Length": "10"}))
        assert wire.read().status == 404
        wire.write(b"0123456789" + FIRST)
        assert wire.read().status == 200


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"Content-Length": str(reply.SHORT_BODY + 1)}, id="long"),
        pytest.param({"Transfer-Encoding": "chunked"}, id="chunked"),
        pytest.param({"Content-Length": "10", "Connection": "close"}, id="on a connection to be closed"),
    ],
)
@pytest.mark.usefixtures("short_linger")
def test_the_connection_ends_after_a_body_that_nobody_read_and_that(control: Served, fields: dict[str, str]) -> None:
    with control.wire() as wire:
        wire.write(message("PUT", "/none", fields))
        answer = wire.read()
        assert (answer.status, answer.header("Connection")) == (404, "close")
        assert ends(wire)


@pytest.mark.parametrize(
    ("version", "fields"), [(b"HTTP/1.0", {}), (b"HTTP/1.1", {"Connection": "close"}), (b"HTTP/1.1", {"Expect": "x"})]
)
def test_a_connection_that_ends_takes_the_rest_of_the_body_before(
    control: Served, monkeypatch: pytest.MonkeyPatch, version: bytes, fields: dict[str, str]
) -> None:
    monkeypatch.setattr(reply, "LINGER_SECONDS", 60.0)
    before = len(control.lines())
    with control.wire() as wire:
        wire.write(message("PUT", "/none", {"Content-Length": "9", **fields}).replace(b"HTTP/1.1", version, 1))
        answer = wire.read()
        assert (answer.status, answer.header("Connection")) == (404, "close")
        # The line is written when the connection may end.
        assert len(control.lines()) == before
        wire.write(b"a" * 9)
        assert ends(wire)
    assert len(control.lines()) == before + 1


def sends_until_the_end(wire: Wire, chunk: bytes) -> int:
    """Send until the server ends the connection, and return how many bytes it was willing to take."""
    sent = 0
    while not select.select([wire.socket], [], [], 0)[0]:
        try:
            sent += wire.socket.send(chunk)
        except ConnectionError:
            break
    return sent


@pytest.mark.parametrize(("target", "limit"), [("/v1/items/quiet", LIMIT), ("/v1/uploads", LARGE_LIMIT)])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_gets_413_although_it_is_still_sending(
    control: Served, target: str, limit: int, chunked: bool
) -> None:
    method = "PUT" if target.startswith("/v1/items") else "POST"
    announced = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(64 << 20)}
    chunk = b"10000\r\n" + b"a" * 65_536 + b"\r\n" if chunked else b"a" * 65_536
    with control.wire() as wire:
        wire.write(message(method, target, {**OPERATOR, **JSON, **announced}))
        for _ in range(limit // 65_536 + 6):
            wire.write(chunk)
        answer = wire.read()
        assert answer.outcome == (413, "request.body-too-large")
        assert answer.header("Connection") == "close"


def test_after_413_no_more_than_a_mebibyte_is_dropped(control: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "LINGER_SECONDS", 60.0)
    with control.wire() as wire:
        wire.write(message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON, "Content-Length": str(1 << 40)}))
        assert wire.read().status == 413
        # What the kernels hold between both ends comes on top.
        assert sends_until_the_end(wire, b"a" * 65_536) < reply.LINGER_BYTES + (16 << 20)
        assert ends(wire)


@pytest.mark.usefixtures("short_linger")
def test_after_413_a_client_that_goes_on_slowly_is_not_waited_for(control: Served) -> None:
    with control.wire() as wire:
        wire.write(message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON, "Content-Length": str(LIMIT + 1)}))
        assert wire.read().status == 413
        assert ends(wire)


def test_a_body_beyond_the_limit_is_refused_at_its_first_byte_beyond(control: Served) -> None:
    stored = len(control.shop.stored)
    with control.wire() as wire:
        wire.write(message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON, "Transfer-Encoding": "chunked"}))
        wire.write(b"%x\r\n%b\r\n" % (LIMIT, TOO_LONG[:LIMIT]))
        wire.write(b"1\r\na\r\n")
        assert wire.read().status == 413
    assert len(control.shop.stored) == stored


def test_a_body_of_exactly_the_limit_is_read(control: Served) -> None:
    body = json.dumps({"name": "lamp", "count": 3}).encode().ljust(LIMIT)
    for sent in (
        message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON}, body),
        message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON}, chunks=[body[:7], body[7:]]),
    ):
        with control.wire() as wire:
            wire.write(sent)
            assert wire.read().status == 204


def test_413_ends_the_connection_although_the_body_came_whole(control: Served) -> None:
    for sent in (
        message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON}, TOO_LONG),
        message("PUT", "/v1/items/quiet", {**OPERATOR, **JSON}, chunks=[TOO_LONG]),
    ):
        with control.wire() as wire:
            wire.write(sent)
            answer = wire.read()
            assert (answer.status, answer.header("Connection")) == (413, "close")
            assert ends(wire)


def test_an_answer_has_ended_when_the_rest_of_the_body_begins_to_be_dropped() -> None:
    ended: list[float | None] = []

    async def receive() -> Message:
        ended.append(answer.ended)
        return {"type": "http.request", "body": b"a", "more_body": len(ended) < 3}

    async def send(_: Message) -> None:
        assert answer.ended is None or len(ended) == 3

    scope = {"headers": [(b"transfer-encoding", b"chunked")], "http_version": "1.1"}
    answer = Reply(Exchange(scope, receive), send)
    asyncio.run(Rendered(404, [], b"").send(answer))
    assert len(ended) == 3
    assert None not in ended
