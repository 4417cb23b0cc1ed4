from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from handlers.gateway.endpoint import UNAUTHENTICATED
from handlers.gateway.faults import Fault
from handlers.gateway.guard import Guard
from tests.handlers.gateway.gate_api import CODE, Gate, gate_api
from tests.handlers.gateway.serving import Served
from tests.handlers.gateway.small_api import Shop, small_apis
from tests.support.wire import Answer, Wire, message

GATE = Gate()


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    with Served("installer", apis=[gate_api(GATE)]) as served:
        yield served


def ask(served: Served, method: str, target: str, authorization: str | None) -> Answer:
    fields = {} if authorization is None else {"Authorization": authorization}
    with served.wire() as wire:
        wire.write(message(method, target, fields))
        return wire.read(method)


PLACES = [
    ("GET", "/v1/gate"),
    ("POST", "/v1/gate"),
    ("OPTIONS", "/v1/gate"),
    ("GET", "/v1/gate/none"),
    ("GET", "/"),
    ("GET", "/docs/none"),
    ("GET", "/%64ocs%2F"),
    ("GET", "/metrics/"),
]


@pytest.mark.parametrize(("method", "target"), PLACES)
def test_whoever_has_no_code_learns_nothing_of_paths_and_methods(guarded: Served, method: str, target: str) -> None:
    answer = ask(guarded, method, target, None)
    assert answer.outcome == (401, "CODE_REFUSED")
    assert answer.header("WWW-Authenticate") == 'Bearer realm="installer"'
    assert answer.json["detail"] == UNAUTHENTICATED
    assert answer.json["requestId"] == answer.header("X-Request-Id")
    assert answer.bare == ask(guarded, "GET", "/v1/gate", "Basic b3Blbg==").bare


@pytest.mark.parametrize(("method", "target"), PLACES)
def test_what_the_guard_raises_is_the_answer_everywhere(guarded: Served, method: str, target: str) -> None:
    answer = ask(guarded, method, target, "Bearer again")
    assert answer.outcome == (429, "CODE_LOCKED")
    assert (answer.header("Retry-After"), answer.header("WWW-Authenticate")) == ("7", None)
    assert answer.json["detail"] == "Wait."


@pytest.mark.parametrize(
    ("authorization", "status", "name", "value"),
    [(None, 401, "WWW-Authenticate", 'Bearer realm="installer"'), ("Bearer again", 429, "Retry-After", "7")],
)
def test_a_head_request_is_refused_by_the_same_headers(
    guarded: Served, authorization: str | None, status: int, name: str, value: str
) -> None:
    for target in ("/v1/gate", "/v1/gate/events", "/none"):
        answer = ask(guarded, "HEAD", target, authorization)
        assert (answer.status, answer.header(name)) == (status, value)


def test_who_is_let_in_is_asked_once_and_comes_to_the_handler(guarded: Served) -> None:
    before = GATE.asked
    assert ask(guarded, "GET", "/v1/gate", "Bearer open").json == {"principal": "Code", "accept": None}
    assert GATE.asked == before + 1


def test_who_is_let_in_is_told_of_paths_and_methods(guarded: Served) -> None:
    assert ask(guarded, "GET", "/none", "Bearer open").outcome == (404, "NOT_FOUND")
    answer = ask(guarded, "PUT", "/v1/gate", "Bearer open")
    assert (answer.outcome, answer.header("Allow")) == ((405, "METHOD_NOT_ALLOWED"), "DELETE, GET, HEAD")


def test_pages_are_open_also_with_a_wrong_method(guarded: Served) -> None:
    before = GATE.asked
    assert ask(guarded, "GET", "/docs", None).status == 200
    assert ask(guarded, "GET", "/docs/start.js", "Bearer again").status == 200
    assert ask(guarded, "POST", "/docs", None).outcome == (405, "METHOD_NOT_ALLOWED")
    assert GATE.asked == before


def test_a_malformed_request_is_refused_before_its_code_is_looked_at(guarded: Served) -> None:
    before = GATE.asked
    for sent in (
        b"GET /v1/gate HTTP/1.1\r\n\r\n",
        b"GET http://a/v1/gate HTTP/1.1\r\nHost: a\r\n\r\n",
        b"nonsense\r\n\r\n",
    ):
        with guarded.wire() as wire:
            wire.write(sent)
            assert wire.read().outcome == (400, "INVALID_REQUEST")
    assert GATE.asked == before


def test_a_body_that_is_not_wanted_is_not_waited_for(guarded: Served) -> None:
    with guarded.wire() as wire:
        wire.write(message("POST", "/v1/gate", {"Content-Length": "1000000"}))
        answer = wire.read()
        assert (answer.outcome, answer.header("Connection")) == ((401, "CODE_REFUSED"), "close")


def test_a_failing_storage_is_the_document_s_problem_and_told_without_a_traceback(
    guarded: Served, caplog: pytest.LogCaptureFixture
) -> None:
    answer = ask(guarded, "GET", "/none", "Bearer outage")
    assert answer.outcome == (500, "INTERNAL")
    assert answer.json["detail"] == Fault.UNAVAILABLE.value
    assert [(line.levelno, line.exc_info) for line in caplog.records] == [(logging.WARNING, None)]


@pytest.mark.parametrize("authorization", ["Bearer fault", "Bearer stranger"])
def test_a_guard_that_does_what_is_not_documented_is_a_logged_500(
    guarded: Served, authorization: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = ask(guarded, "GET", "/v1/gate", authorization)
    assert answer.outcome == (500, "INTERNAL")
    (line,) = caplog.records
    assert line.__dict__["traceId"] == answer.header("X-Request-Id")


def test_a_refusal_keeps_the_connection(guarded: Served) -> None:
    with guarded.wire() as wire:
        for fields, status in (({}, 401), (CODE, 200), ({}, 401)):
            wire.write(message("GET", "/v1/gate", fields))
            assert wire.read().status == status


def test_a_listener_without_a_guard_is_open_to_all(control: Served) -> None:
    assert Guard.of(small_apis(Shop()), "control") is None
    assert Guard.of([gate_api(Gate())], "control") is None
    assert control.ask("GET", "/none").status == 404


@pytest.mark.parametrize(
    ("fields", "accept"),
    [
        ([], None),
        ([("Accept", "")], ""),
        ([("Accept", "application/yaml;q=0.5, */*")], "application/yaml;q=0.5, */*"),
        ([("Accept", "a/b"), ("accept", "c/d")], "a/b, c/d"),
        ([("Accept", "caf\xe9".encode("latin-1"))], "caf\xe9"),
    ],
)
def test_a_handler_that_chooses_a_media_type_is_told_what_the_client_accepts(
    guarded: Served, fields: list[tuple[str, str | bytes]], accept: str | None
) -> None:
    with Wire(guarded.port) as wire:
        wire.write(message("GET", "/v1/gate", [*CODE.items(), *fields]))
        assert json.loads(wire.read().body)["accept"] == accept
