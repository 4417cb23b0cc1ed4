from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import UTC, datetime

import pytest

from tools.commands import delivery

KEY = b"0123456789abcdef0123456789abcdef"
TARGET = "/v1/events/case-follow-up/case-created"
SIGNED = ("ce-id", "ce-source", "ce-type", "ce-time", "ce-dataschema")
DELIVERED = ("X-Registry-Event-Generation", "X-Registry-Delivery-Attempt", "X-Registry-Delivery-Time")

ENVELOPE = {
    "type": "case-created-v1",
    "source": "urn:gatehouse:demo",
    "dataschema": "urn:gatehouse:demo:case-created-v1",
    "id": "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0",
    "time": "2026-04-15T12:00:00Z",
    "subject": {"recordReference": "record-1", "recordRevision": 1},
    "causation": {"hop": 0, "root": "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0"},
    "data": {"b": 1e21, "a": "é", "\ufb33": 1, "😀": 0.000001},
}


def signature(headers: dict[str, str], target: str, body: bytes) -> str:
    """The v1 signature, worked out anew from the document's words."""
    values = ["1.0", *(headers[name] for name in SIGNED), *(headers[name] for name in DELIVERED), "POST", target]
    encoded = [value.encode() for value in [*values, headers["Content-Type"], headers["Idempotency-Key"]]] + [body]
    signed = b"breg-webhook-signature-v1" + b"".join(len(each).to_bytes(8, "big") + each for each in encoded)
    return "v1=" + base64.urlsafe_b64encode(hmac.digest(KEY, signed, "sha256")).rstrip(b"=").decode()


def test_the_body_is_canonical_and_the_idempotency_key_its_digest() -> None:
    event = delivery.event(ENVELOPE)
    assert '"data":{"a":"é","b":1e+21,"😀":0.000001,"\ufb33":1}'.encode() in event.body
    assert event.body.startswith(b'{"causation":{"hop":0,')
    assert event.idempotency_key == f"sha256:{hashlib.sha256(event.body).hexdigest()}"
    assert delivery.event(ENVELOPE, "mine").idempotency_key == "mine"


def test_the_headers_repeat_the_envelope_and_are_signed() -> None:
    event = delivery.event(ENVELOPE)
    headers = delivery.headers(event, KEY, target=TARGET, generation=3, attempt=2)
    assert {name: headers[f"ce-{name}"] for name in ("id", "source", "type", "time", "dataschema")} == {
        name: ENVELOPE[name] for name in ("id", "source", "type", "time", "dataschema")
    }
    assert headers["ce-specversion"] == "1.0"
    assert [headers[name] for name in DELIVERED[:2]] == ["3", "2"]
    assert headers["X-Registry-Signature"] == signature(headers, TARGET, event.body)


def test_now_is_a_time_in_the_wire_form() -> None:
    text = delivery.now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,2}[1-9])?Z", text)
    assert abs((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()) < 60


@pytest.mark.parametrize("moment", ["2026-04-15T12:00:00", "2026-04-15T12:00:10.5", "2026-04-15T10:00:00.12"])
def test_a_moment_is_told_without_trailing_zeros(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> Clock:
            assert tz is UTC
            return cls.fromisoformat(f"{moment}+00:00")

    monkeypatch.setattr(delivery, "datetime", Clock)
    assert delivery.now() == f"{moment}Z"


def test_an_integer_that_json_readers_round_is_refused() -> None:
    with pytest.raises(ValueError, match="9007199254740993"):
        delivery.event({**ENVELOPE, "data": 9007199254740993})


def test_a_key_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="32"):
        delivery.headers(delivery.event(ENVELOPE), b"short", target=TARGET, generation=1, attempt=1)
