from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.gatehouse import Gatehouse
from tests.support.nodes import JSON, REGISTRATIONS, Node, line, request_of, step
from tests.support.wire import Answer, message
from tools.authority import new_key

AS_TEXT: Final = {"Content-Type": "text/plain"}
TOO_LONG: Final = b" " * (4_194_304 + 1)
LONG_FOR_A_REGISTRATION: Final = b" " * (65_536 + 1)
NOT_FOUND: Final = (404, "NOT_FOUND")
TOO_LARGE: Final = (413, "BODY_TOO_LARGE")
UNSUPPORTED: Final = (415, "UNSUPPORTED_MEDIA_TYPE")
INVALID: Final = (400, "INVALID_INPUT")
REUSED: Final = (409, "IDEMPOTENCY_KEY_REUSED")
UNAUTHENTICATED: Final = (401, "UNAUTHENTICATED")


@pytest.fixture(scope="module")
def ended(founder: Gatehouse) -> Iterator[Node]:
    """A node that used two keys in its turn, the second for the batch that ended its join."""
    node = Node.in_turn(founder)
    assert node.report(line("a line"), key="used").status == 204
    assert node.report(step("services", "failed"), key="last").status == 204
    yield node
    node.out()


def send(node: Node, body: bytes, fields: dict[str, str] | None = None) -> Answer:
    return node.send("POST", f"{node.path}/events", JSON | (fields or {}), body)


def batch(*events: Any) -> bytes:
    return json.dumps({"events": events}).encode()


# reportJoinEvents: the key, 413, 415, 400, the Idempotency-Key, the state.


def test_the_method_is_looked_at_before_the_key(founder: Gatehouse, ended: Node) -> None:
    answer = founder.send_join("GET", f"{ended.path}/events")
    assert answer.outcome == (405, "METHOD_NOT_ALLOWED")
    assert answer.header("Allow") == "POST"


def test_the_key_is_looked_at_before_the_length_and_without_the_body(founder: Gatehouse, ended: Node) -> None:
    stranger = Node(founder)
    with stranger.connect() as wire:
        wire.write(message("POST", f"{ended.path}/events", AS_TEXT | {"Content-Length": str(len(TOO_LONG))}))
        assert wire.read().outcome == NOT_FOUND
    stranger.join_id = ended.join_id
    assert send(stranger, TOO_LONG, AS_TEXT).outcome == NOT_FOUND


def test_the_length_is_looked_at_before_the_media_type(ended: Node) -> None:
    assert send(ended, TOO_LONG, AS_TEXT).outcome == TOO_LARGE


def test_the_media_type_is_looked_at_before_the_parameters_and_the_body(ended: Node) -> None:
    assert send(ended, b"{", AS_TEXT | {"Idempotency-Key": ""}).outcome == UNSUPPORTED


def test_the_body_is_looked_at_before_the_idempotency_key_and_the_state(ended: Node, pending: Node) -> None:
    for body in (b"{", batch(step("services", "running"), {"type": "log"}), batch(step("unknown", "running"))):
        assert send(ended, body, {"Idempotency-Key": "used"}).outcome == INVALID
        assert send(pending, body).outcome == INVALID
    assert send(ended, batch(), {"Idempotency-Key": "no key"}).outcome == INVALID


def test_the_idempotency_key_is_looked_at_before_the_state(ended: Node) -> None:
    assert send(ended, batch(line("a line")), {"Idempotency-Key": "used"}).status == 204
    assert send(ended, batch(line("another")), {"Idempotency-Key": "used"}).outcome == REUSED
    assert send(ended, batch(step("services", "failed")), {"Idempotency-Key": "last"}).status == 204
    assert send(ended, batch(line("a line"))).outcome == (409, "JOIN_ENDED")
    assert [each["message"] for each in ended.server.join_log(ended.join_id)["lines"]] == ["a line"]


def test_the_turn_is_looked_at_before_the_order_of_steps(ended: Node, pending: Node) -> None:
    backwards = batch(step("services", "done"), step("services", "running"))
    assert send(pending, backwards).outcome == (409, "JOIN_NOT_IN_TURN")
    assert send(ended, backwards).outcome == (409, "JOIN_ENDED")


# register: the token, 413, 415, 400, then what storage decides.


def register(founder: Gatehouse, token: str, body: bytes, kind: dict[str, str] = JSON) -> Answer:
    return founder.send_join("POST", REGISTRATIONS, kind | {"Authorization": f"Bearer {token}"}, body)


def test_a_token_is_looked_at_before_the_length_and_without_the_body(founder: Gatehouse) -> None:
    with Node(founder).connect() as wire:
        wire.write(message("POST", REGISTRATIONS, AS_TEXT | {"Content-Length": "65537"}))
        assert wire.read().outcome == UNAUTHENTICATED
    assert register(founder, "unknown", LONG_FOR_A_REGISTRATION, AS_TEXT).outcome == UNAUTHENTICATED


def test_a_registration_is_looked_at_in_the_order_of_its_answers(founder: Gatehouse, pending: Node) -> None:
    node, token = Node(founder), founder.mint()["token"]
    taken = founder.registration(pending.join_id)["name"]
    assert register(founder, token, LONG_FOR_A_REGISTRATION, AS_TEXT).outcome == TOO_LARGE
    assert register(founder, token, b"{", AS_TEXT).outcome == UNSUPPORTED
    assert node.register(token, name=taken, csr="no request").outcome == INVALID
    assert node.register(token, name=taken).outcome == (409, "JOIN_NAME_TAKEN")
    spent = pending.minted["token"]
    assert node.register(spent, name=taken).outcome == UNAUTHENTICATED


def test_a_request_for_a_certificate_is_looked_at_before_the_state_and_the_key(ended: Node) -> None:
    path = f"{ended.path}/certificate"
    assert ended.post(path, {"csr": "no request"}).outcome == INVALID
    assert ended.post(path, {"csr": request_of(new_key())}).outcome in {(409, "JOIN_KEY_MISMATCH"), (409, "JOIN_ENDED")}


# The listeners.


def test_each_operation_is_on_its_listener_alone(founder: Gatehouse, pending: Node) -> None:
    path = pending.path
    for method, target in (
        ("POST", "/v1/join/tokens"),
        ("DELETE", f"/v1/join/tokens/{pending.minted['tokenId']}"),
        ("POST", f"{path}/approve"),
        ("POST", f"{path}/reject"),
        ("GET", f"{path}/log"),
        ("GET", "/v1/runs"),
        ("GET", "/health"),
        ("GET", "/metrics"),
    ):
        assert pending.send(method, target, founder.operator).outcome == NOT_FOUND, target
    assert pending.send("GET", REGISTRATIONS, founder.operator).outcome == (405, "METHOD_NOT_ALLOWED")
    for method, target in (("POST", f"{path}/certificate"), ("POST", f"{path}/events")):
        assert founder.send(method, target, founder.operator).outcome == NOT_FOUND, target
    assert founder.operate("POST", REGISTRATIONS, pending.request()).outcome == (405, "METHOD_NOT_ALLOWED")
    assert founder.send("GET", path).outcome == UNAUTHENTICATED


def test_what_no_operation_has_is_answered_in_the_shape_of_the_join(founder: Gatehouse) -> None:
    for target in (
        "/",
        "/v1",
        "/v1/join",
        "/v1/join/",
        f"{REGISTRATIONS}/",
        "/v1/events/a/b",
        "/V1/join/registrations",
    ):
        assert founder.send_join("GET", target).outcome == NOT_FOUND, target
    for target in ("/v1/join/", "/v1/join/unknown", f"{REGISTRATIONS}/", f"{REGISTRATIONS}/x/unknown"):
        assert founder.send("GET", target).outcome == NOT_FOUND, target
    for target in ("/v1/join", "/v1/joins"):
        assert founder.send("GET", target).outcome == (404, "request.not-found"), target


def test_the_document_of_the_join_is_served_on_both_listeners(founder: Gatehouse) -> None:
    served = founder.send_join("GET", "/openapi/join.json")
    assert served.status == 200
    assert served.body == founder.send("GET", "/openapi/join.json").body
    assert founder.send_join("GET", "/openapi/coordinator.json").outcome == NOT_FOUND
    assert founder.send_join("GET", "/docs").status == 200


def test_head_is_get_without_a_body(founder: Gatehouse, pending: Node) -> None:
    with pending.connect() as wire:
        wire.write(message("HEAD", pending.path))
        answer = wire.read("HEAD")
    assert answer.status == 200
    wrong = pending.send("DELETE", pending.path)
    assert (wrong.outcome, wrong.header("Allow")) == ((405, "METHOD_NOT_ALLOWED"), "GET, HEAD")
    assert founder.send("HEAD", pending.path, founder.operator).status == 200
