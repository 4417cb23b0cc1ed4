from __future__ import annotations

import asyncio
import io
import json
import logging
import ssl
from typing import NoReturn

import httpx
import pytest

from handlers.gateway.listener import Listener
from handlers.gateway.telemetry import Metrics, RequestLog
from tests.handlers.gateway.certificates import Certificates
from tests.handlers.gateway.serving import JSON, OPERATOR, Served, over_tls
from tests.handlers.gateway.small_api import Shop, small_apis
from tests.support.wire import Answer, Wire, message


@pytest.fixture
def node(join: Served, certificates: Certificates) -> Wire:
    """A connection to the join listener, with a client certificate."""
    return Wire(join.port, over_tls(certificates.client(ssl.TLSVersion.TLSv1_3, certificate=True)))


def ask(wire: Wire, method: str, target: str, body: bytes | None = None) -> Answer:
    wire.write(message(method, target, JSON if body is not None else {}, body))
    return wire.read(method)


def test_a_path_of_another_listener_is_404(control: Served, node: Wire) -> None:
    with node:
        assert ask(node, "GET", "/v1/items").outcome == (404, "request.not-found")
        assert ask(node, "POST", "/v1/join/nodes", b'{"name":"a","links":[]}').status == 201
    assert control.ask("POST", "/v1/join/nodes").outcome == (404, "NOT_FOUND")


def test_each_listener_has_its_own_allow(control: Served, node: Wire) -> None:
    with node:
        assert ask(node, "POST", "/v1/door").header("Allow") == "DELETE, GET, HEAD"
    assert control.ask("POST", "/v1/door").header("Allow") == "GET, HEAD"
    assert control.ask("DELETE", "/v1/door").header("Allow") == "GET, HEAD"


def test_a_security_scheme_counts_on_its_own_listener_alone(control: Served, join: Served, node: Wire) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with Wire(join.port, over_tls(context)) as wire:
        wire.write(message("GET", "/v1/door", OPERATOR))
        assert wire.read().outcome == (401, "certificate.refused")
    with node:
        assert ask(node, "GET", "/v1/door").json["values"] == {"principal": "ClientCertificate"}
    assert control.ask("GET", "/v1/door", OPERATOR).json["values"] == {"principal": "OperatorToken"}
    assert control.ask("GET", "/v1/door").outcome == (401, "authentication.refused")


@pytest.mark.parametrize(
    ("method", "target", "outcome"),
    [
        ("GET", "/v1/join/none", (404, "NOT_FOUND")),
        ("GET", "/v1/%6Aoin/none", (404, "NOT_FOUND")),
        ("GET", "/v1/join/", (404, "NOT_FOUND")),
        ("GET", "/v1/join", (404, "request.not-found")),
        ("GET", "/v1/joined", (404, "request.not-found")),
        ("POST", "/v1/join/nodes/a", (405, "METHOD_NOT_ALLOWED")),
        ("GET", "/v1/join/nodes/a", (401, "UNAUTHENTICATED")),
        ("GET", "/v1/join/nodes/a#", (400, "INVALID_INPUT")),
        ("POST", "/docs", (405, "request.method-not-allowed")),
    ],
)
def test_a_problem_has_the_shape_of_the_document_whose_path_it_is(
    control: Served, method: str, target: str, outcome: tuple[int, str]
) -> None:
    answer = control.ask(method, target)
    assert answer.outcome == outcome
    member = "requestId" if outcome[1].isupper() else "traceId"
    assert answer.json[member] == answer.header("X-Request-Id")
    expected = {"code", "detail", "status", "title", "type", member} | ({"errors"} if outcome[0] == 400 else set())
    assert set(answer.json) == expected


def test_a_problem_is_whole_and_in_the_order_of_its_names(control: Served) -> None:
    answer = control.ask("GET", "/none")
    assert answer.header("Content-Type") == "application/problem+json"
    assert list(answer.json) == ["code", "detail", "status", "title", "traceId", "type"]
    assert answer.json["title"] == "Title of request.not-found"
    assert answer.json["type"] == "https://shop.test/request.not-found"


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/v1/sealed"), ("PUT", "/v1/items/special"), ("PATCH", "/v1/items/a"), ("GET", "/none")],
)
def test_routing_comes_before_authentication_and_the_body(control: Served, method: str, target: str) -> None:
    with control.wire() as wire:
        wire.write(message(method if target != "/v1/sealed" else "GET", target, {"Content-Length": "100"}))
        assert wire.read().status in {404, 405}


def test_a_fault_outside_an_operation_is_a_logged_500_in_the_right_shape(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> NoReturn:
        raise ArithmeticError("secret")

    listener = Listener(
        "control",
        small_apis(Shop()),
        {"/broken": broken, "/v1/join/broken": broken},
        Metrics(),
        RequestLog(io.StringIO()),
    )

    async def get(target: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(listener), base_url="http://shop.test") as client:
            return await client.get(target)

    caplog.set_level(logging.ERROR)
    for target, code, member in [
        ("/broken", "runtime.failure", "traceId"),
        ("/v1/join/broken", "INTERNAL", "requestId"),
    ]:
        answer = asyncio.run(get(target))
        assert (answer.status_code, answer.json()["code"]) == (500, code)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()[member] == answer.headers["X-Request-Id"] == caplog.records[-1].__dict__["traceId"]
        assert "secret" not in answer.text


def test_headers_come_once(control: Served) -> None:
    for method, target in [("GET", "/v1/items/a"), ("POST", "/v1/items"), ("GET", "/none"), ("GET", "/v1/items")]:
        names = [name for name, _ in control.ask(method, target).fields]
        assert len(names) == len(set(names))


def test_the_server_does_not_say_what_it_is_made_of(control: Served) -> None:
    answer = control.ask("GET", "/none")
    assert answer.header("Server") is None
    assert "uvicorn" not in json.dumps(answer.fields) + answer.body.decode()


def test_a_proxy_cannot_speak_for_the_connection(control: Served) -> None:
    control.ask("GET", "/v1/items", {**OPERATOR, "X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https"})
    assert control.shop.client == "127.0.0.1"
