"""A product event as its producer makes it: the envelope in canonical form, and each delivery's signed headers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import rfc8785

from handlers.coordinator.signature import sign


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event with its body; every delivery of it has the same bytes and the same Idempotency-Key."""

    envelope: Mapping[str, Any]
    body: bytes
    idempotency_key: str


def event(envelope: Mapping[str, Any], idempotency_key: str | None = None) -> Event:
    """Make the event of an envelope; ValueError where RFC 8785 cannot write it, as with an integer beyond 2^53.

    The Idempotency-Key is the digest of the body where none is given.
    """
    body = rfc8785.dumps(dict(envelope))
    return Event(
        envelope=envelope,
        body=body,
        idempotency_key=idempotency_key or f"sha256:{hashlib.sha256(body).hexdigest()}",
    )


def now() -> str:
    """Return this moment as events and deliveries tell it: UTC, to the millisecond, without trailing zeros."""
    moment = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{moment.rstrip('0').rstrip('.')}Z"


def headers(event: Event, key: bytes, *, target: str, generation: int, attempt: int) -> dict[str, str]:
    """Return every header of one delivery that is sent now to `target`, the path as the server receives it.

    Raises ValueError where a value is not ASCII or the key is too short.
    """
    envelope = event.envelope
    fields = {
        "Content-Type": "application/json",
        "Idempotency-Key": event.idempotency_key,
        "X-Registry-Delivery-Attempt": str(attempt),
        "X-Registry-Delivery-Time": now(),
        "X-Registry-Event-Generation": str(generation),
        "ce-specversion": "1.0",
        **{f"ce-{name}": str(envelope[name]) for name in ("id", "source", "type", "time", "dataschema")},
    }
    fields["X-Registry-Signature"] = sign(key, fields, method="POST", target=target, body=event.body)
    return fields
