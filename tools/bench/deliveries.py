"""Signed, unique, 1 KB events as raw HTTP requests in a file, prepared so that signing costs a round nothing."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from handlers.coordinator.signature import sign

TARGET: Final = "/v1/events/case-follow-up/case-created"
SOURCE: Final = "urn:gatehouse:demo"
TYPE: Final = "case-created-v1"
DATASCHEMA: Final = "urn:gatehouse:demo:case-created-v1"
BODY_BYTES: Final = 1024
EVENT_TIME: Final = "2026-04-15T12:00:00Z"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file of `count` raw requests of `size` bytes each."""

    path: Path
    size: int
    count: int


def event(event_id: str, note: str = "") -> dict[str, object]:
    """A demo event as a producer would send it; it is its own root."""
    return {
        "causation": {"hop": 0, "root": event_id},
        "data": {
            "address": {"city": "Rotterdam", "country": "NL", "postalCode": "3011 AD", "street": "Wijnhaven 23"},
            "assignedTo": None,
            "caseId": f"case-{event_id}",
            "channel": "counter",
            "labels": ["household", "first-visit", "needs-interpreter"],
            "members": [{"age": 41, "role": "head"}, {"age": 39, "role": "partner"}, {"age": 7, "role": "child"}],
            "note": note,
            "openedAt": "2026-04-15T11:59:58Z",
            "openedBy": "officer-0142",
            "priority": 3,
            "urgent": False,
        },
        "dataschema": DATASCHEMA,
        "id": event_id,
        "source": SOURCE,
        "subject": {"recordReference": f"case/{event_id}", "recordRevision": 1},
        "time": EVENT_TIME,
        "type": TYPE,
    }


def canonical(value: object) -> bytes:
    """RFC 8785 bytes of a value that has ASCII keys and small integers only, as the bench's events do."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def headers(event_id: str, idempotency_key: str, delivery_time: str) -> dict[str, str]:
    """Every header of a first delivery but the signature."""
    return {
        "Content-Type": "application/json",
        "ce-specversion": "1.0",
        "ce-id": event_id,
        "ce-source": SOURCE,
        "ce-type": TYPE,
        "ce-time": EVENT_TIME,
        "ce-dataschema": DATASCHEMA,
        "X-Registry-Event-Generation": "1",
        "X-Registry-Delivery-Attempt": "1",
        "X-Registry-Delivery-Time": delivery_time,
        "Idempotency-Key": idempotency_key,
    }


def delivery_time(seconds: float) -> str:
    """A time since the epoch in the wire form of X-Registry-Delivery-Time, whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def raw_requests(count: int, key: bytes, host: str) -> Iterator[bytes]:
    """`count` HTTP/1.1 requests of equal length, no two with the same event or idempotency key."""
    now = delivery_time(time.time())
    note = "x" * (BODY_BYTES - len(canonical(event(str(UUID(int=0))))))
    template = canonical(event("{id}", note)).decode()
    for _ in range(count):
        event_id = str(UUID(bytes=os.urandom(16), version=4))
        body = template.replace("{id}", event_id).encode()
        fields = headers(event_id, f"sha256:{os.urandom(32).hex()}", now)
        fields["X-Registry-Signature"] = sign(key, fields, method="POST", target=TARGET, body=body)
        fields |= {"Host": host, "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        yield f"POST {TARGET} HTTP/1.1\r\n{lines}\r\n".encode() + body


def prepare(path: Path, count: int, key: bytes, host: str) -> Prepared:
    """Write `count` signed requests to a file; they are good for thirty seconds."""
    size = 0
    with path.open("wb") as file:
        for request in raw_requests(count, key, host):
            size = file.write(request)
    return Prepared(path, size, count)
