from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from handlers.gateway import endpoint
from handlers.gateway.endpoint import Endpoint
from handlers.gateway.faults import Fault
from handlers.gateway.schemas import Describer
from storage.errors import AuditUnavailable, Overloaded, StorageError, Unavailable, Unstorable
from tests.handlers.gateway import small_api
from tests.handlers.gateway.certificates import Certificates
from tests.handlers.gateway.serving import JSON, OPERATOR, Served, over_tls
from tests.handlers.gateway.small_api import LIMIT, Echo, Ok, Shop, small_apis
from tests.support.wire import PATIENCE_SECONDS, Answer, Wire, message

ITEM = json.dumps({"name": "lamp", "count": 3}).encode()
FIELDS = {**OPERATOR, **JSON}
SECRET = "s3cr3t-value"


def raises(error: BaseException) -> Callable[[], Awaitable[Any]]:
    async def misdeed() -> Any:
        raise error

    return misdeed


def returns(value: Any) -> Callable[[], Awaitable[Any]]:
    async def misdeed() -> Any:
        return value

    return misdeed


@pytest.fixture
def shop(control: Served) -> Iterator[Shop]:
    yield control.shop
    control.shop.misdeed = control.shop.behave


class Panic(BaseException):
    """As Rust extensions raise it."""


@pytest.mark.parametrize(
    "misdeed",
    [
        pytest.param(raises(ValueError(SECRET)), id="any exception"),
        pytest.param(raises(KeyError(SECRET)), id="a missing key"),
        pytest.param(raises(RecursionError(SECRET)), id="too deep a recursion"),
        pytest.param(raises(asyncio.CancelledError(SECRET)), id="a cancellation"),
        pytest.param(raises(Panic(SECRET)), id="a panic"),
        pytest.param(raises(small_api.Undocumented(SECRET)), id="a problem that the operation does not document"),
        pytest.param(raises(small_api.InvalidInput(SECRET)), id="a problem of another document"),
        pytest.param(raises(Unstorable(SECRET)), id="a value that storage cannot hold"),
        pytest.param(returns(None), id="a forgotten return"),
        pytest.param(returns(small_api.NoContent(x_item=SECRET)), id="an answer of another operation"),
        pytest.param(returns({"values": SECRET}), id="an untyped answer"),
        pytest.param(returns(Ok(body=Echo(values={"a": object()}))), id="an answer that is no JSON"),
        pytest.param(returns(Ok(body=Echo(values={"a": "\ud800"}))), id="an answer that is no UTF-8"),
        pytest.param(
            raises(small_api.ItemConflict("Held.", headers={"X-Holder": "a\r\nX-Injected: b"})),
            id="a header that would be two",
        ),
        pytest.param(
            raises(small_api.ItemConflict("Held.", headers={"X-Holder": "\u4e2d"})), id="a header beyond Latin-1"
        ),
        pytest.param(raises(small_api.ItemConflict("\ud800")), id="a detail that is no UTF-8"),
    ],
)
def test_a_handler_that_does_what_is_not_documented_is_a_logged_500(
    control: Served, shop: Shop, misdeed: Callable[[], Awaitable[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    shop.misdeed = misdeed
    with control.wire() as wire:
        wire.write(message("GET", "/v1/misbehave"))
        answer = wire.read()
        assert answer.outcome == (500, "runtime.failure")
        assert answer.json["detail"] == Fault.FAILURE.value
        assert SECRET not in answer.body.decode()
        assert not any(name == "x-injected" for name, _ in answer.fields)
        wire.write(message("GET", "/v1/items/a"))
        assert wire.read().status == 200
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.__dict__["traceId"] == answer.header("X-Request-Id") == answer.json["traceId"]
    assert record.exc_info is not None


def test_a_documented_problem_is_answered_with_its_headers(control: Served) -> None:
    answer = control.ask("PUT", "/v1/items/held", FIELDS, ITEM)
    assert answer.outcome == (409, "item.conflict")
    assert answer.header("X-Holder") == "somebody"
    assert answer.json["detail"] == "Another one holds the item."


@pytest.mark.parametrize(
    ("error", "outcome", "retry_after"),
    [
        (Unavailable("SELECT"), (503, "service.unavailable"), "5"),
        (Overloaded("SELECT"), (503, "service.unavailable"), "1"),
        (AuditUnavailable("SELECT"), (503, "audit.response-unavailable"), "5"),
    ],
)
def test_a_fault_of_storage_is_a_503_that_says_when_to_come_again(
    control: Served, shop: Shop, error: StorageError, outcome: tuple[int, str], retry_after: str
) -> None:
    shop.misdeed = raises(error)
    answer = control.ask("GET", "/v1/misbehave")
    assert answer.outcome == outcome
    assert answer.header("Retry-After") == retry_after
    assert "SELECT" not in answer.body.decode()


def test_a_fault_of_storage_is_a_failure_where_503_is_not_documented(control: Served, shop: Shop) -> None:
    shop.misdeed = raises(Unavailable("SELECT"))
    answer = control.ask("GET", "/v1/frail")
    assert answer.outcome == (500, "runtime.failure")
    assert answer.header("Retry-After") is None


def test_a_client_that_leaves_does_not_stop_the_handler(
    control: Served, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    entered, left = threading.Event(), asyncio.Event()
    finished: list[bool] = []

    async def misdeed() -> Ok:
        entered.set()
        await left.wait()
        finished.append(True)
        return Ok(body=Echo(values={}))

    shop.misdeed = misdeed
    with control.wire() as wire:
        wire.write(message("GET", "/v1/misbehave"))
        assert entered.wait(PATIENCE_SECONDS)
    control.loop.call_soon_threadsafe(left.set)
    control.wait_until(lambda: not control.server.server_state.tasks)
    control.wait_until(lambda: not control.server.server_state.connections)
    assert finished
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_credentials_are_checked_before_parameters_and_the_body(control: Served) -> None:
    for fields in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": b"Bearer caf\xe9"}):
        for method, target, body in [("GET", "/v1/items?limit=x", None), ("PUT", "/v1/items/a", b"{")]:
            answer = control.ask(method, target, fields, body)
            assert answer.outcome == (401, "authentication.refused")
            assert answer.header("WWW-Authenticate") == 'Bearer realm="shop"'


def node(join: Served, certificates: Certificates, *, certificate: bool) -> Wire:
    """Connect to the join listener."""
    return Wire(join.port, over_tls(certificates.client(ssl.TLSVersion.TLSv1_3, certificate=certificate)))


def without_id(answer: Answer) -> tuple[Any, ...]:
    fields = [field for field in answer.fields if field[0] not in {"date", "x-request-id"}]
    return answer.status, fields, {**answer.json, "requestId": ""}


def test_the_listener_is_the_realm_where_the_document_leaves_it_open(
    control: Served, join: Served, certificates: Certificates
) -> None:
    answer = control.ask("GET", "/v1/join/nodes/a")
    assert answer.outcome == (401, "UNAUTHENTICATED")
    assert answer.header("WWW-Authenticate") == 'Bearer realm="gatehouse"'
    assert answer.json["detail"] == endpoint.UNAUTHENTICATED
    with node(join, certificates, certificate=True) as wire:
        wire.write(message("POST", "/v1/join/nodes", JSON, b'{"name":"stranger","links":[]}'))
        answer = wire.read()
    assert (answer.outcome, answer.json["detail"]) == ((401, "UNAUTHENTICATED"), "The token is none.")
    assert answer.header("WWW-Authenticate") == 'Bearer realm="join"'


def test_a_scheme_that_refuses_with_404_tells_nothing_whatever_is_asked_and_reads_no_body(
    join: Served, certificates: Certificates
) -> None:
    def ask(method: str, target: str, fields: Mapping[str, str], body: bytes | None = None) -> Answer:
        with node(join, certificates, certificate=False) as wire:
            wire.write(message(method, target, fields, body))
            return wire.read()

    asked = [
        ask("POST", "/v1/join/nodes", JSON, b'{"name":"a","links":[]}'),
        ask("POST", "/v1/join/nodes?wait=x", {"Content-Type": "text/plain"}, b"no"),
        ask("POST", "/v1/join/nodes", {**JSON, **OPERATOR}, b" " * (LIMIT + 1)),
        ask("GET", "/v1/join/nodes/known", OPERATOR),
        ask("GET", "/v1/join/nodes/unknown", {}),
    ]
    assert all(without_id(answer) == without_id(asked[0]) for answer in asked)
    assert asked[0].outcome == (404, "NOT_FOUND")
    assert asked[0].json["detail"] == endpoint.UNKNOWN
    assert asked[0].header("WWW-Authenticate") is None
    waiting = ask("POST", "/v1/join/nodes", {**JSON, "Content-Length": "10"})
    assert waiting.outcome == (404, "NOT_FOUND")


def test_a_body_that_is_too_long_goes_before_its_media_type_and_that_before_parameters(control: Served) -> None:
    long_name = "a" * 41
    too_long = b" " * (small_api.LIMIT + 1)
    assert control.ask("PUT", f"/v1/items/{long_name}", OPERATOR, too_long).status == 413
    assert control.ask("PUT", f"/v1/items/{long_name}", OPERATOR, b"{").status == 415
    assert control.ask("PUT", f"/v1/items/{long_name}", FIELDS, b"{").outcome == (404, "item.unknown")
    assert control.ask("PUT", "/v1/items/a", FIELDS, b"{").outcome == (400, "request.invalid")


@pytest.mark.parametrize(
    ("target", "body", "code"),
    [
        ("/v1/items/a", b"{", "request.invalid"),
        ("/v1/items/a", b"{}", "item.invalid"),
        ("/v1/items/a", b'{"count":1,"name":"a","name":"b"}', "request.invalid"),
        ("/v1/sealed", b"{", "item.sealed"),
        ("/v1/sealed", b"{}", "item.sealed"),
        ("/v1/sealed", b'{"name":"a","count":1}', "item.sealed"),
        ("/v1/settings", b"{", "request.invalid"),
        ("/v1/settings", b"{}", "request.invalid"),
    ],
)
def test_the_bytes_of_a_body_have_the_general_code_and_its_value_its_own(
    control: Served, target: str, body: bytes, code: str
) -> None:
    method = "POST" if target == "/v1/sealed" else "PUT"
    assert control.ask(method, target, FIELDS, body).outcome == (400, code)


def test_another_media_type_has_the_general_code_where_415_is_not_documented(control: Served) -> None:
    assert control.ask("POST", "/v1/sealed", {"Content-Type": "text/plain"}, b"{}").outcome == (400, "request.invalid")


def test_a_request_has_every_field_that_the_operation_declares(control: Served) -> None:
    answer = control.ask(
        "GET", "/v1/items?kind=old&deep=true&offset=7", {**OPERATOR, "X-Flavour": "salt", "X-Count": "3"}
    )
    expected = {"limit": 20, "kind": "old", "deep": True, "offset": 7, "x_flavour": "salt", "x_count": 3}
    assert answer.json["values"] == expected


def test_a_fault_that_an_operation_cannot_answer_is_found_at_start() -> None:
    shop, _ = small_apis(Shop())
    api = replace(shop, faults={**shop.faults, Fault.UNAVAILABLE: ["service.unavailable"]})
    frail = next(each for each in api.operations if each.name == "frail")
    with pytest.raises(LookupError, match=r"frail documents none of service\.unavailable"):
        Endpoint(api, frail, "control", Describer(api.contract))


def test_an_operation_without_a_scheme_for_its_listener_is_found_at_start() -> None:
    shop, _ = small_apis(Shop())
    operation = next(each for each in shop.operations if each.name == "list_items")
    with pytest.raises(LookupError, match="listItems has no security scheme for the listener join"):
        Endpoint(shop, operation, "join", Describer(shop.contract))
