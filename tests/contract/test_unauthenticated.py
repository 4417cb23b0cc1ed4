from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeAlias

from tests.support.deliveries import PATH, Delivery
from tests.support.gatehouse import Gatehouse
from tests.support.wire import Answer

Cause: TypeAlias = Callable[[Gatehouse], Answer]
Change: TypeAlias = Callable[[str], str]

SIGNED: Final = [name for name in Delivery().headers(bytes(32)) if name != "ce-specversion"]
FIELDS: Final = [name for name in SIGNED if name != "X-Registry-Signature"]

UNKNOWN: Final = {
    "an unknown trigger": "/v1/events/case-follow-up/nothing",
    "an unknown workflow": "/v1/events/nothing/case-created",
    "a known pair the wrong way round": "/v1/events/case-created/case-follow-up",
    "a trigger in other letters": "/v1/events/case-follow-up/Case-Created",
    "a trigger with a slash inside": "/v1/events/case-follow-up/case%2Fcreated",
    "a trigger that is no UTF-8": "/v1/events/case-follow-up/%ff",
    "a trigger of 65 characters": f"/v1/events/case-follow-up/{'x' * 65}",
    "a trigger with a zero byte": "/v1/events/case-follow-up/case-created%00",
}
MALFORMED: Final[dict[str, str | bytes]] = {
    "empty": "",
    "of spaces": "   ",
    "with a tab": "a\tb",
    "with a letter beyond ASCII": b"caf\xe9",
}
UNTIMELY: Final[dict[str, Change]] = {
    "with an offset": lambda time: time.replace("Z", "+00:00"),
    "without an offset": lambda time: time.removesuffix("Z"),
    "in lower case": str.lower,
    "with a space": lambda time: time.replace("T", " "),
    "with trailing zeros": lambda time: time.replace("Z", ".10Z"),
    "with ten digits of a fraction": lambda time: time.replace("Z", ".0000000001Z"),
    "with an empty fraction": lambda time: time.replace("Z", ".Z"),
    "in a second 60": lambda time: f"{time[:17]}60Z",
    "in figures that are not ASCII's": lambda time: time[:-2] + "1_Z",
    "that is a number": lambda _: "1788048001",
}
MISSIGNED: Final[dict[str, Change]] = {
    "no version": lambda signature: signature.removeprefix("v1="),
    "another version": lambda signature: signature.replace("v1", "v2"),
    "a version in upper case": lambda signature: signature.replace("v1", "V1"),
    "a signature that is cut off": lambda signature: signature[:-1],
    "a signature with padding": lambda signature: signature + "=",
    "a signature in the alphabet of base64": lambda signature: signature[:-2] + "+/",
    "a signature of zeros": lambda _: "v1=" + "A" * 43,
    "two signatures in one": lambda signature: f"{signature},{signature}",
}


def to_path(path: str, server: Gatehouse) -> Answer:
    return server.deliver(Delivery(path=path))


def with_field(fields: Mapping[str, str | bytes | None], server: Gatehouse) -> Answer:
    return server.deliver(unsigned=fields)


def with_signed_field(fields: Mapping[str, str], server: Gatehouse) -> Answer:
    return server.deliver(Delivery(changes=fields))


def with_repeated_field(name: str, server: Gatehouse) -> Answer:
    delivery = Delivery()
    fields = delivery.headers(server.key)
    return server.send("POST", PATH, [*fields.items(), (name, fields[name])], delivery.body)


def with_signature(change: Change, server: Gatehouse) -> Answer:
    delivery = Delivery()
    fields = delivery.headers(server.key)
    changed = {"X-Registry-Signature": change(fields["X-Registry-Signature"])}
    return server.send("POST", PATH, fields | changed, delivery.body)


def with_body(change: Callable[[bytes], bytes], server: Gatehouse) -> Answer:
    delivery = Delivery()
    return server.send("POST", PATH, delivery.headers(server.key), change(delivery.body))


def with_query(server: Gatehouse) -> Answer:
    delivery = Delivery()
    return server.send("POST", f"{PATH}?x=1", delivery.headers(server.key), delivery.body)


def delivered_at(change: Change, seconds: int, server: Gatehouse) -> Answer:
    time = datetime.now(UTC) + timedelta(seconds=seconds)
    return with_signed_field({"X-Registry-Delivery-Time": change(f"{time:%Y-%m-%dT%H:%M:%SZ}")}, server)


CAUSES: Final[dict[str, Cause]] = {
    **{name: partial(to_path, path) for name, path in UNKNOWN.items()},
    **{f"{name} absent": partial(with_field, {name: None}) for name in SIGNED},
    **{f"{name} repeated": partial(with_repeated_field, name) for name in SIGNED},
    **{f"{name} {how}": partial(with_field, {name: value}) for name in SIGNED for how, value in MALFORMED.items()},
    # What is signed as it is sent is refused for its form alone.
    **{f"{name} empty and signed": partial(with_signed_field, {name: ""}) for name in FIELDS},
    **{f"{name} with a tab and signed": partial(with_signed_field, {name: "a\tb"}) for name in FIELDS},
    **{f"a delivery time {how}": partial(delivered_at, change, 0) for how, change in UNTIMELY.items()},
    "a delivery time of 31 seconds ago": partial(delivered_at, str, -31),
    "a delivery time in 31 seconds": partial(delivered_at, str, 31),
    **{name: partial(with_signature, change) for name, change in MISSIGNED.items()},
    "fields of more than 32,768 bytes": partial(with_signed_field, {"Idempotency-Key": "x" * 32_768}),
    "a byte more in the body": partial(with_body, lambda body: body + b" "),
    "a byte less in the body": partial(with_body, lambda body: body[:-1]),
    "no body": partial(with_body, lambda _: b""),
    "a query that was not signed": with_query,
    "another key": lambda server: server.deliver(key=bytes(32)),
}


def test_every_refusal_of_authentication_is_the_same_but_for_its_trace_id(server: Gatehouse) -> None:
    first = server.deliver(unsigned={"X-Registry-Signature": None})
    assert first.outcome == (401, "event.unauthenticated")
    assert first.header("WWW-Authenticate") == 'Registry-Signature version="v1"'
    before = server.rows()
    different = {name: answer for name, cause in CAUSES.items() if (answer := cause(server)).bare != first.bare}
    assert not different
    assert server.rows() == before
    assert "Traceback" not in server.log
