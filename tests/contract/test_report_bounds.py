from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support import contract
from tests.support.gatehouse import Gatehouse
from tests.support.nodes import JSON, RAFT, Node, line, lines, step

RECORDED: Final = (204, "")
INVALID: Final = (400, "INVALID_INPUT")
LIMIT: Final = 4_194_304


@pytest.fixture(scope="module")
def node(founder: Gatehouse) -> Iterator[Node]:
    """A node whose turn it is."""
    node = Node.in_turn(founder)
    yield node
    node.leave()


GOOD: Final[dict[str, Any]] = {
    "a line": {"type": "log", "message": ""},
    "a line of a step": {"type": "log", "message": "x", "step": "services"},
    "a line with a time": {"type": "log", "message": "x", "at": "2026-04-15T09:30:01.4Z"},
    "a line with another's status": {"type": "log", "message": "x", "status": "running"},
    "a step that runs": {"type": "step", "step": "services", "status": "running"},
    "a step with words": {"type": "step", "step": "services", "status": "running", "message": "x"},
    "a step that is done": {"type": "step", "step": "services", "status": "done"},
    "a member more": {"type": "log", "message": "x", "more": 1},
}
BAD: Final[dict[str, tuple[str, Any]]] = {
    "no type": ("type", {"message": "x"}),
    "no type, of a step": ("type", {"step": "services", "status": "running", "message": "x"}),
    "another type": ("type", {"type": "log-x", "message": "x"}),
    "a type in upper case": ("type", {"type": "LOG", "message": "x"}),
    "a type null": ("type", {"type": None, "message": "x"}),
    "a line without its text": ("message", {"type": "log", "step": "services", "status": "running"}),
    "a line with null": ("message", {"type": "log", "message": None}),
    "a line with a number": ("message", {"type": "log", "message": 1}),
    "a line of the step null": ("step", {"type": "log", "message": "x", "step": None}),
    "a line with the time null": ("at", {"type": "log", "message": "x", "at": None}),
    "a line with no time": ("at", {"type": "log", "message": "x", "at": "yesterday"}),
    "a line with a status null": ("status", {"type": "log", "message": "x", "status": None}),
    "a step without its name": ("step", {"type": "step", "status": "running", "message": "x"}),
    "a step without its status": ("status", {"type": "step", "step": "services", "message": "x"}),
    "a step null": ("step", {"type": "step", "step": None, "status": "running"}),
    "a step with another status": ("status", {"type": "step", "step": "services", "status": "waiting"}),
    "a step with a longer status": ("status", {"type": "step", "step": "services", "status": "failed-x"}),
    "a step with a status null": ("status", {"type": "step", "step": "services", "status": None}),
    "a step with a text null": ("message", {"type": "step", "step": RAFT, "status": "running", "message": None}),
    "null": ("", None),
}


@pytest.mark.parametrize("event", GOOD.values(), ids=GOOD)
def test_an_event_within_its_bounds_is_recorded(node: Node, event: Any) -> None:
    assert contract.schema("join", "JoinEvent").is_valid(event)
    assert node.report(event).outcome == RECORDED


@pytest.mark.parametrize(("place", "event"), BAD.values(), ids=BAD)
def test_an_event_beyond_its_bounds_is_refused_where_it_is(node: Node, place: str, event: Any) -> None:
    assert not contract.schema("join", "JoinEvent").is_valid(event)
    answer = node.report(event)
    assert answer.outcome == INVALID
    where = f"events[0].{place}".removesuffix(".")
    assert where in {error["field"] for error in answer.json["errors"]}


def test_a_report_has_at_most_500_events(node: Node) -> None:
    assert node.report(*lines(0, 500)).outcome == RECORDED
    assert node.report(*lines(0, 501)).outcome == INVALID


def test_a_report_is_an_object_with_a_list_of_events(node: Node) -> None:
    target = f"{node.path}/events"
    assert node.post(target, {"events": [], "more": 1}).outcome == RECORDED
    bodies: list[Any] = [{}, {"events": None}, {"events": {}}, None, []]
    for body in bodies:
        assert node.post(target, body).outcome == INVALID


def test_a_report_has_at_most_4194304_bytes(node: Node) -> None:
    target, least = f"{node.path}/events", json.dumps({"events": []}).encode()
    assert node.send("POST", target, JSON, least.ljust(LIMIT)).outcome == RECORDED
    assert node.send("POST", target, JSON, least.ljust(LIMIT + 1)).outcome == (413, "BODY_TOO_LARGE")


def test_there_is_a_body_of_its_media_type_in_any_form(node: Node) -> None:
    target = f"{node.path}/events"
    assert node.send("POST", target, JSON, b'{ "events": [] }').outcome == RECORDED
    assert node.send("POST", target, JSON, b"").outcome == INVALID
    assert node.send("POST", target, {}, None).outcome == INVALID
    xml = {"Content-Type": "application/xml"}
    assert node.send("POST", target, xml, b"<events/>").outcome == (415, "UNSUPPORTED_MEDIA_TYPE")


KEYS: Final = {
    "!": RECORDED,
    "~" * 64: RECORDED,
    "~" * 65: INVALID,
    "": INVALID,
    "a b": INVALID,
    " a": RECORDED,
    "\u00e9a": INVALID,
    "a\u00e9": INVALID,
}


@pytest.mark.parametrize(("key", "outcome"), KEYS.items())
def test_a_key_is_1_to_64_visible_characters(node: Node, key: str, outcome: tuple[int, str]) -> None:
    fields = JSON | {"Idempotency-Key": key.encode("latin-1")}
    answer = node.send("POST", f"{node.path}/events", fields, b'{"events":[]}')
    assert answer.outcome == outcome
    if outcome == INVALID:
        assert [error["field"] for error in answer.json["errors"]] == ["Idempotency-Key"]


def test_a_join_is_open_to_its_own_certificate_alone(node: Node, founder: Gatehouse) -> None:
    refused = (404, "NOT_FOUND")
    target = f"{node.path}/events"
    assert founder.send_join("POST", target, JSON, b'{"events":[]}').outcome == refused
    assert Node.registered(founder).send("POST", target, JSON, b'{"events":[]}').outcome == refused
    for other in ("no-uuid", "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"):
        assert node.post(f"/v1/join/registrations/{other}/events", {"events": []}).outcome == refused
    assert founder.operate("POST", target, {"events": []}).status == 404


def test_a_step_may_fail(founder: Gatehouse) -> None:
    node = Node.registered(founder)
    node.approved()
    # It is another's turn, which is judged after the batch was read.
    assert node.report(step("services", "failed")).outcome == (409, "JOIN_NOT_IN_TURN")
    assert node.report(step("services", "failed-x")).outcome == INVALID
    assert node.report(line("x")).outcome == (409, "JOIN_NOT_IN_TURN")
    node.leave()
