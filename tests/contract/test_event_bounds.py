from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
import rfc8785

from tests.contract import promised
from tests.support import contract
from tests.support.deliveries import PATH, Delivery, envelope, now
from tests.support.gatehouse import Gatehouse, NewServer

ADMITTED: Final = (204, "")
MALFORMED: Final = (400, "request.invalid")
INVALID: Final = (400, "event.invalid")
UNAUTHENTICATED: Final = (401, "event.unauthenticated")
TOO_LONG: Final = (413, "request.body-too-large")
UNKNOWN: Final = (409, "deployment.refused")

LONGEST: Final = "x" * 64
LIMIT: Final = 1_048_576
PARENT: Final = "7c0f3a52-5b1e-4d7e-9a41-2f6d8c1b9e30"


@pytest.fixture(scope="module")
def bounded(new_server: NewServer) -> Iterator[Gatehouse]:
    """A server that knows pairs whose names are as short and as long as they may be; no package has them."""
    server = new_server()
    for number, pair in enumerate((("x", "y"), (LONGEST, "y"), ("x", LONGEST))):
        server.add_source(*pair, server.key, f"bounded-{number}.key")
    with server:
        yield server


# The parameters, each signed as it is sent.


@pytest.mark.parametrize("pair", [("x", "y"), (LONGEST, "y"), ("x", LONGEST)], ids=["short", "workflow", "trigger"])
def test_names_in_the_path_have_1_to_64_characters(bounded: Gatehouse, pair: tuple[str, str]) -> None:
    assert bounded.deliver(Delivery(path="/v1/events/{}/{}".format(*pair))).outcome == UNKNOWN


HEADERS: Final[list[tuple[str, str, tuple[int, str]]]] = [
    ("ce-specversion", "1.0", ADMITTED),
    ("ce-specversion", "1.1", MALFORMED),
    ("ce-specversion", "1.0-x", MALFORMED),
    ("ce-id", "no-uuid", MALFORMED),
    ("ce-time", "yesterday", MALFORMED),
    ("ce-time", "2026-02-30T00:00:00Z", MALFORMED),
    *(
        (name, value, outcome)
        for name in ("X-Registry-Event-Generation", "X-Registry-Delivery-Attempt")
        for value, outcome in {
            "1": ADMITTED,
            "9" * 19: ADMITTED,
            "1" + "0" * 19: MALFORMED,
            "0": MALFORMED,
            "01": MALFORMED,
            "x1": MALFORMED,
            "1x": MALFORMED,
            "-1": MALFORMED,
        }.items()
    ),
    ("Idempotency-Key", "x" * 257, MALFORMED),
    ("X-Registry-Delivery-Time", "yesterday", UNAUTHENTICATED),
]


@pytest.mark.parametrize(("name", "value", "outcome"), HEADERS)
def test_a_header_has_a_value_within_its_bounds(
    server: Gatehouse, name: str, value: str, outcome: tuple[int, str]
) -> None:
    answer = server.deliver(Delivery(changes={name: value}))
    assert answer.outcome == outcome
    if outcome == MALFORMED:
        assert f"parameter {name} " in answer.json["detail"]


@pytest.mark.parametrize("member", ["source", "type", "dataschema"])
def test_a_text_has_one_character_or_more_in_the_header_and_in_the_body(server: Gatehouse, member: str) -> None:
    answer = server.deliver(Delivery(event=envelope(**{member: "x"})))
    assert answer.outcome == INVALID
    assert "satisfy" not in answer.json["detail"]
    event = envelope()
    refused = server.deliver(Delivery(event=event, body=rfc8785.dumps(event | {member: ""})))
    assert refused.outcome == INVALID
    assert f"{member} " in refused.json["detail"]
    assert server.deliver(Delivery(changes={f"ce-{member}": ""})).outcome == UNAUTHENTICATED


def test_a_key_has_1_to_256_characters(server: Gatehouse) -> None:
    for length in (1, 256):
        key = str(uuid4())[:length].ljust(length, "x")
        assert server.deliver(Delivery(changes={"Idempotency-Key": key})).outcome in {
            ADMITTED,
            (409, "idempotency.key-reused"),
        }
    assert server.deliver(Delivery(changes={"Idempotency-Key": ""})).outcome == UNAUTHENTICATED


@pytest.mark.parametrize("name", [*Delivery().headers(bytes(32))])
def test_no_header_may_be_left_out(server: Gatehouse, name: str) -> None:
    expected = MALFORMED if name == "ce-specversion" else UNAUTHENTICATED
    assert server.deliver(unsigned={name: None}).outcome == expected


def test_the_signature_stands_in_its_own_header(server: Gatehouse) -> None:
    delivery = Delivery(changes={"X-Registry-Delivery-Time": now()})
    signed = delivery.headers(server.key)
    moved = {"X-Registry-Signature": None, "X-X-Registry-Signature": signed["X-Registry-Signature"]}
    assert server.deliver(delivery, unsigned=moved).outcome == UNAUTHENTICATED
    told = contract.document()["components"]["securitySchemes"]["registrySignature"]["name"]
    where_told = {"X-Registry-Signature": None, told: signed["X-Registry-Signature"]}
    assert server.deliver(delivery, unsigned=where_told).outcome == ADMITTED


# The body.


def test_a_body_has_at_most_1048576_bytes(server: Gatehouse) -> None:
    assert server.deliver(Delivery(body=b" " * LIMIT)).outcome == INVALID
    assert server.deliver(Delivery(body=b" " * (LIMIT + 1))).outcome == TOO_LONG


def test_there_is_a_body_of_its_media_type_in_canonical_form(server: Gatehouse) -> None:
    event = envelope()
    assert server.deliver(Delivery(event=event, body=rfc8785.dumps(event) + b" ")).outcome == INVALID
    fields = Delivery(event=event, body=b" ")
    fields.body = b""
    assert server.deliver(fields).outcome == INVALID
    assert server.deliver(Delivery(changes={"Content-Type": "application/xml"})).outcome == MALFORMED


Change = Callable[[dict[str, Any]], object]


def follow(**changes: Any) -> Change:
    """Make of a root event one that another led to."""
    return lambda event: event.update(causation={"hop": 1, "parent": PARENT, "root": PARENT} | changes)


# What is done to a root event after which it is one that can be admitted, and one that cannot.
GOOD: Final[dict[str, Change]] = {
    "hop 1": follow(hop=1),
    "hop 8": follow(hop=8),
    "revision 1": lambda event: event["subject"].update(recordRevision=1),
    "revision 2^53-1": lambda event: event["subject"].update(recordRevision=9_007_199_254_740_991),
    "reference of no character": lambda event: event["subject"].update(recordReference=""),
    "time with 1 digit": lambda event: event.update(time="2026-08-30T00:00:00.1Z"),
    "time with 3 digits": lambda event: event.update(time="2026-08-30T00:00:00.001Z"),
}
BAD: Final[dict[str, tuple[str, Change]]] = {
    **{f"no {name}": (name, lambda event, name=name: event.pop(name)) for name in envelope()},  # type: ignore[misc]
    **{
        f"{name} null": (name, lambda event, name=name: event.update({name: None}))  # type: ignore[misc]
        for name in envelope()
        if name != "data"
    },
    "a member more": ("has", lambda event: event.update(more=1)),
    "a member of causation more": ("causation", lambda event: event["causation"].update(more=1)),
    "a member of subject more": ("subject", lambda event: event["subject"].update(more=1)),
    "no hop": ("causation.hop", lambda event: event["causation"].pop("hop")),
    "no root": ("causation.root", lambda event: event["causation"].pop("root")),
    "hop -1": ("causation.hop", follow(hop=-1)),
    "hop 9": ("causation.hop", follow(hop=9)),
    "hop null": ("causation.hop", follow(hop=None)),
    "hop 0 and a parent": ("causation", lambda event: event["causation"].update(parent=PARENT)),
    "hop 1 and no parent": ("causation.parent", lambda event: event["causation"].update(hop=1)),
    "parent null": ("causation.parent", follow(parent=None)),
    "parent no uuid": ("causation.parent", follow(parent="x")),
    "root null": ("causation.root", follow(root=None)),
    "root no uuid": ("causation.root", follow(root="x")),
    "id no uuid": ("id", lambda event: event.update(id="x")),
    "no reference": ("subject.recordReference", lambda event: event["subject"].pop("recordReference")),
    "no revision": ("subject.recordRevision", lambda event: event["subject"].pop("recordRevision")),
    "reference null": ("subject.recordReference", lambda event: event["subject"].update(recordReference=None)),
    "revision null": ("subject.recordRevision", lambda event: event["subject"].update(recordRevision=None)),
    "revision 0": ("subject.recordRevision", lambda event: event["subject"].update(recordRevision=0)),
    "revision 2^53": ("subject.recordRevision", lambda event: event["subject"].update(recordRevision=2.0**53)),
    "time with 4 digits": ("time", lambda event: event.update(time="2026-08-30T00:00:00.0001Z")),
    "time with a zero at its end": ("time", lambda event: event.update(time="2026-08-30T00:00:00.10Z")),
    "time with an offset": ("time", lambda event: event.update(time="2026-08-30T00:00:00+00:00")),
    "time of no day": ("time", lambda event: event.update(time="2026-02-30T00:00:00Z")),
    "time after something": ("time", lambda event: event.update(time="x2026-08-30T00:00:00Z")),
    "time before something": ("time", lambda event: event.update(time="2026-08-30T00:00:00Zx")),
}


@pytest.mark.parametrize("change", GOOD.values(), ids=GOOD)
def test_an_event_within_its_bounds_is_admitted(server: Gatehouse, change: Change) -> None:
    event = envelope()
    change(event)
    assert contract.schema("coordinator", "HookEnvelope").is_valid(event)
    assert server.deliver(Delivery(event=event)).outcome == ADMITTED


@pytest.mark.parametrize(("place", "change"), BAD.values(), ids=BAD)
def test_an_event_beyond_its_bounds_is_refused_where_it_is(server: Gatehouse, place: str, change: Change) -> None:
    event = envelope()
    sent = {name: dict(value) if isinstance(value, dict) else value for name, value in event.items()}
    change(sent)
    assert not contract.schema("coordinator", "HookEnvelope").is_valid(sent)
    answer = server.deliver(Delivery(event=event, body=rfc8785.dumps(sent)))
    assert answer.outcome == INVALID
    assert f"does not satisfy the document: {place} " in answer.json["detail"]


def test_an_event_is_an_object(server: Gatehouse) -> None:
    for body in (b"null", b"[]", b'"x"', b"1"):
        answer = server.deliver(Delivery(body=body))
        assert answer.outcome == INVALID
        assert "does not satisfy the document" in answer.json["detail"]


def test_only_the_control_listener_takes_events(server: Gatehouse) -> None:
    assert server.send_join("POST", PATH).status == 404
    nowhere = server.send("POST", "/v1/events")
    assert nowhere.outcome == (404, "request.not-found")
    promised.check("coordinator", nowhere)
