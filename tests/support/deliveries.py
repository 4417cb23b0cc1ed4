"""Signed deliveries of demo events, whole or broken in one place."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import rfc8785

from handlers.coordinator.signature import sign

PATH: Final = "/v1/events/case-follow-up/case-created"
UNSERVED: Final = "/v1/events/case-follow-up/unserved"
UNREADABLE: Final = "/v1/events/case-follow-up/unreadable"


def now() -> str:
    """Return the delivery time of this moment."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def envelope(**changes: Any) -> dict[str, Any]:
    """Return a fresh demo event; `changes` replace members, None takes one away."""
    own = str(uuid.uuid4())
    event: dict[str, Any] = {
        "causation": {"hop": 0, "root": own},
        "data": {"caseId": "C-2026-0417"},
        "dataschema": "urn:gatehouse:demo:case-created-v1",
        "id": own,
        "source": "urn:gatehouse:demo",
        "subject": {"recordReference": "case/C-2026-0417", "recordRevision": 1},
        "time": "2026-08-30T00:00:00Z",
        "type": "case-created-v1",
    }
    if "id" in changes and "causation" not in changes:
        event["causation"] = {"hop": 0, "root": changes["id"]}
    event |= changes
    return {name: value for name, value in event.items() if value is not None}


def raw_envelope(data: bytes, **changes: Any) -> tuple[dict[str, Any], bytes]:
    """Return a fresh event and its canonical bytes, but for the value of `data`, which is written as it is given."""
    event = envelope(**changes)
    whole = rfc8785.dumps(event | {"data": "here"})
    return event, whole.replace(b'"data":"here"', b'"data":' + data)


@dataclass(kw_only=True)
class Delivery:
    """One delivery; what is changed before `headers` is called is signed, what is changed after is not."""

    event: dict[str, Any] = field(default_factory=envelope)
    body: bytes = b""
    path: str = PATH
    attempt: int = 1
    changes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.body = self.body or rfc8785.dumps(self.event)

    def headers(self, key: bytes) -> dict[str, str]:
        """Return the headers of a delivery at this moment, signed with `key`."""
        headers = {
            "ce-specversion": "1.0",
            "ce-id": self.event["id"],
            "ce-source": self.event["source"],
            "ce-type": self.event["type"],
            "ce-time": self.event["time"],
            "ce-dataschema": self.event["dataschema"],
            "X-Registry-Event-Generation": "1",
            "X-Registry-Delivery-Attempt": str(self.attempt),
            "X-Registry-Delivery-Time": now(),
            "Content-Type": "application/json",
            "Idempotency-Key": f"demo:{self.event['id']}",
            **self.changes,
        }
        return headers | {"X-Registry-Signature": sign(key, headers, method="POST", target=self.path, body=self.body)}
