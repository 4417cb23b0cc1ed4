"""What Gatehouse and both peers have to answer alike: an input is one delivery or several, of which the last counts."""

import http.client
import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from handlers.coordinator.signature import sign
from tools.bench.deliveries import TARGET, canonical, delivery_time, event, headers
from tools.bench.servers import HOST, Server

SIGNED = "X-Registry-Signature"


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, problem code ("" for none) and the run's id ("" for none)."""

    status: int
    code: str
    run_id: str


@dataclass(slots=True, kw_only=True)
class Delivery:
    """A delivery that can be bent before it is signed (`fields`, `body`, `target`) and after (`late`)."""

    event_id: str = field(default_factory=lambda: str(uuid4()))
    body: bytes = b""
    fields: dict[str, str] = field(default_factory=dict)
    method: str = "POST"
    target: str = TARGET
    late: dict[str, str | None] = field(default_factory=dict)
    repeated: Sequence[str] = ()

    def send(self, port: int, key: bytes) -> Answer:
        """Sign and send; `late` then replaces header fields, or removes them where it says None."""
        body = self.body or canonical(event(self.event_id))
        fields = headers(self.event_id, f"key-{self.event_id}", delivery_time(time.time())) | self.fields
        lines: dict[str, str | None] = {
            **fields,
            SIGNED: sign(key, fields, method=self.method, target=self.target, body=body),
            **self.late,
        }
        sent = [(name, value) for name, value in lines.items() if value is not None]
        sent += [(name, value) for name, value in sent if name in self.repeated]
        return exchange(port, self.method, self.target, sent, body)


def exchange(port: int, method: str, target: str, fields: Sequence[tuple[str, str]], body: bytes) -> Answer:
    """Send one request on a connection of its own."""
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    try:
        connection.putrequest(method, target)
        for name, value in (*fields, ("Content-Length", str(len(body)))):
            connection.putheader(name, value)
        # A body that is too long is cut off where it has been answered.
        with suppress(ConnectionError):
            connection.endheaders(body)
        answer = connection.getresponse()
        problem: Mapping[str, Any] = json.loads(answer.read() or b"{}")
        return Answer(answer.status, problem.get("code", ""), answer.getheader("X-Coordinator-Run-Id", ""))
    finally:
        connection.close()


def changed(**members: object) -> Delivery:
    """A delivery whose envelope has these members in place of its own; the headers stay as they were."""
    delivery = Delivery()
    delivery.body = canonical(event(delivery.event_id) | members)
    return delivery


def spelled(old: str, new: str) -> Delivery:
    """A delivery whose body has one piece of its text spelled in another way."""
    delivery = Delivery()
    text = canonical(event(delivery.event_id)).decode()
    assert text.count(old) == 1
    delivery.body = text.replace(old, new).encode("utf-8", "surrogatepass")
    return delivery


def of_data(text: str) -> Delivery:
    """A delivery whose data has a member `zz` of exactly this JSON text, after its caseId."""
    delivery = Delivery()
    whole = canonical(event(delivery.event_id) | {"data": {"caseId": "c", "zz": "@"}}).decode()
    delivery.body = whole.replace('"@"', text).encode("utf-8", "surrogatepass")
    return delivery


def again(first: Delivery, **changes: Any) -> list[Delivery]:
    """A delivery and then another with the same event id."""
    return [first, Delivery(event_id=first.event_id, **changes)]


def other_bytes() -> list[Delivery]:
    """The same event id twice, the second time with other data."""
    first = Delivery()
    return again(first, body=canonical(event(first.event_id, "another note")))


def key_of_another() -> list[Delivery]:
    """Two events under one idempotency key."""
    return [Delivery(fields={"Idempotency-Key": name}) for name in [f"key-{uuid4()}"] * 2]


def in_another_case() -> list[Delivery]:
    """An event id in upper case, then in lower case: one identity by its 128 bits, but other bytes."""
    event_id = f"ABCDEF{str(uuid4())[6:]}"
    return [Delivery(event_id=event_id.upper()), Delivery(event_id=event_id.lower())]


def later(seconds: float) -> list[Delivery]:
    """A delivery that says it was made so many seconds from now."""
    return [Delivery(fields={"X-Registry-Delivery-Time": delivery_time(time.time() + seconds)})]


def nested(levels: int) -> list[Delivery]:
    """A delivery with so many levels of nesting, the envelope and its data counted."""
    return [of_data("[" * (levels - 2) + "]" * (levels - 2))]


def from_elsewhere() -> list[Delivery]:
    """A delivery that is consistent, but of a source that the trigger does not name."""
    delivery = changed(source="urn:gatehouse:other")
    delivery.fields = {"ce-source": "urn:gatehouse:other"}
    return [delivery]


def sized(data_bytes: int) -> list[Delivery]:
    """A delivery with a note of so many bytes."""
    return [of_data('"' + "x" * data_bytes + '"')]


def child(**causation: object) -> list[Delivery]:
    """A delivery with this causation."""
    return [changed(causation=causation)]


PARENT = "5d0c7c6e-0a53-4cf0-9d6c-2f6d2f3d1f10"
ROOT = "0c7f7a5e-7a50-4ce4-8f8b-51c4d2f6aa01"

Make = Callable[[], list[Delivery]]
INPUTS: Mapping[str, tuple[Make, int, str]] = {
    "a new event": (lambda: [Delivery()], 204, ""),
    "a redelivery": (lambda: again(Delivery()), 204, ""),
    "a redelivery under another key and attempt": (
        lambda: again(Delivery(), fields={"Idempotency-Key": f"k-{uuid4()}", "X-Registry-Delivery-Attempt": "2"}),
        204,
        "",
    ),
    "a query that is signed": (lambda: [Delivery(target=TARGET + "?a=%2F")], 204, ""),
    "the same event with other bytes": (other_bytes, 409, "idempotency.key-reused"),
    "the same event id in another case": (in_another_case, 409, "idempotency.key-reused"),
    "the key of another event": (key_of_another, 409, "idempotency.key-reused"),
    "a signature of another body": (
        lambda: [Delivery(late={SIGNED: "v1=OzL5k0ghZJb9nPbb-JOVsroWeanipBlZXbeKDd52RcM"})],
        401,
        "event.unauthenticated",
    ),
    "a malformed signature": (lambda: [Delivery(late={SIGNED: "v2=x"})], 401, "event.unauthenticated"),
    "a delivery time of a minute ago": (lambda: later(-60), 401, "event.unauthenticated"),
    "a delivery time in a minute": (lambda: later(60), 401, "event.unauthenticated"),
    "a delivery time with an offset": (
        lambda: [Delivery(fields={"X-Registry-Delivery-Time": delivery_time(time.time())[:-1] + "+00:00"})],
        401,
        "event.unauthenticated",
    ),
    "a signed header that is missing": (lambda: [Delivery(late={"ce-type": None})], 401, "event.unauthenticated"),
    "a signed header that is repeated": (lambda: [Delivery(repeated=["ce-type"])], 401, "event.unauthenticated"),
    "an unknown trigger": (
        lambda: [Delivery(target="/v1/events/case-follow-up/other")],
        401,
        "event.unauthenticated",
    ),
    "no spec version": (lambda: [Delivery(late={"ce-specversion": None})], 400, "request.invalid"),
    "another spec version": (lambda: [Delivery(late={"ce-specversion": "0.3"})], 400, "request.invalid"),
    "an event id that is no UUID": (lambda: [Delivery(fields={"ce-id": "one"})], 400, "request.invalid"),
    "a generation of zero": (
        lambda: [Delivery(fields={"X-Registry-Event-Generation": "0"})],
        400,
        "request.invalid",
    ),
    "a key of 257 characters": (lambda: [Delivery(fields={"Idempotency-Key": "k" * 257})], 400, "request.invalid"),
    "another media type": (lambda: [Delivery(fields={"Content-Type": "text/plain"})], 400, "request.invalid"),
    "a media type with a parameter": (
        lambda: [Delivery(fields={"Content-Type": "Application/JSON; charset=utf-8"})],
        204,
        "",
    ),
    "an encoded body": (lambda: [Delivery(late={"Content-Encoding": "gzip"})], 400, "request.invalid"),
    "white space": (lambda: [spelled('"hop":0', '"hop": 0')], 400, "event.invalid"),
    "a duplicate member": (lambda: [spelled('"hop":0', '"hop":0,"hop":0')], 400, "event.invalid"),
    "members in another order": (
        lambda: [spelled('"priority":3,"urgent":false', '"urgent":false,"priority":3')],
        400,
        "event.invalid",
    ),
    "a number with a needless fraction": (lambda: [of_data("1.0")], 400, "event.invalid"),
    "an integer that binary64 cannot hold": (lambda: [of_data("9007199254740993")], 400, "event.invalid"),
    "an integer that binary64 can hold": (lambda: [of_data("9007199254740994")], 204, ""),
    "numbers as RFC 8785 writes them": (lambda: [of_data("[1e+21,0.000001,1e-7,0.1]")], 204, ""),
    "NaN": (lambda: [of_data("NaN")], 400, "event.invalid"),
    "a lone surrogate": (lambda: [of_data('"\\ud800"')], 400, "event.invalid"),
    "bytes that are no UTF-8": (lambda: [of_data('"\ud800"')], 400, "event.invalid"),
    "keys in the order of UTF-16": (lambda: [of_data('{"\U0001f600":1,"\ufb33":2}')], 204, ""),
    "keys in the order of code points": (lambda: [of_data('{"\ufb33":2,"\U0001f600":1}')], 400, "event.invalid"),
    "64 levels": (lambda: nested(64), 204, ""),
    "65 levels": (lambda: nested(65), 400, "event.invalid"),
    "a member that the envelope does not have": (lambda: [changed(zone="eu")], 400, "event.invalid"),
    "a revision of zero": (
        lambda: [changed(subject={"recordReference": "r", "recordRevision": 0})],
        400,
        "event.invalid",
    ),
    "a time unlike its header": (lambda: [changed(time="2026-04-15T12:00:01Z")], 400, "event.invalid"),
    "a later event in its chain": (lambda: child(hop=1, parent=PARENT, root=ROOT), 204, ""),
    "a later event without a parent": (lambda: child(hop=1, root=ROOT), 400, "event.invalid"),
    "a parent of null": (lambda: child(hop=1, parent=None, root=ROOT), 400, "event.invalid"),
    "a ninth hop": (lambda: child(hop=9, parent=PARENT, root=ROOT), 400, "event.invalid"),
    "another source": (from_elsewhere, 400, "event.invalid"),
    "an input that the workflow refuses": (lambda: [changed(data={"caseId": 7})], 400, "input.invalid"),
    "no input": (lambda: [changed(data="x")], 400, "input.invalid"),
    "a value over 131,072 bytes": (lambda: sized(131_072), 413, "event.too-large"),
    "a body over 1,048,576 bytes": (lambda: sized(1_048_576), 413, "request.body-too-large"),
    "another method": (lambda: [Delivery(method="PUT")], 405, "request.method-not-allowed"),
}


def last_answer(server: Server, name: str) -> Answer:
    """Send all deliveries of one input; all but the last have to be admitted, as the run of the last if it has one."""
    make, _, _ = INPUTS[name]
    *earlier, last = [delivery.send(server.program.port, server.program.key_file.read_bytes()) for delivery in make()]
    assert all(answer.status == 204 for answer in earlier)
    assert not last.run_id or all(answer.run_id == last.run_id for answer in earlier)
    return last


def runs_of_one_event_at_once(server: Server, deliveries: int) -> list[Answer]:
    """The answers to so many deliveries of one event that are sent at the same time."""
    key, event_id = server.program.key_file.read_bytes(), str(uuid4())
    with ThreadPoolExecutor(deliveries) as pool:
        return list(pool.map(lambda _: Delivery(event_id=event_id).send(server.program.port, key), range(deliveries)))


def table(server: Server, name: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    with closing(sqlite3.connect(server.program.database)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"SELECT * FROM {name}")]  # noqa: S608 - a name in a test
