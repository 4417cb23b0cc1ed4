import json
import time
from pathlib import Path

import rfc8785

from handlers.coordinator.signature import sign
from tools.bench.deliveries import BODY_BYTES, TARGET, canonical, delivery_time, event, prepare, raw_requests


def parts(request: bytes) -> tuple[dict[str, str], bytes]:
    head, body = request.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")[1:]
    return dict(line.split(": ", 1) for line in lines), body


def test_a_prepared_event_is_canonical_and_of_the_promised_size() -> None:
    _, body = parts(next(raw_requests(1, b"k" * 32, "127.0.0.1:1")))
    assert rfc8785.dumps(json.loads(body)) == body
    assert len(body) == BODY_BYTES


def test_canonical_agrees_with_the_reference_on_the_events_of_the_bench() -> None:
    body = canonical(event("5d0c7c6e-0a53-4cf0-9d6c-2f6d2f3d1f10", "größer"))
    assert body == rfc8785.dumps(json.loads(body))


def test_no_two_prepared_requests_share_event_key_or_signature() -> None:
    requests = [parts(request)[0] for request in raw_requests(100, b"k" * 32, "127.0.0.1:1")]
    for name in ("ce-id", "Idempotency-Key", "X-Registry-Signature"):
        assert len({fields[name] for fields in requests}) == 100


def test_a_prepared_request_is_signed_over_what_it_carries() -> None:
    fields, body = parts(next(raw_requests(1, b"k" * 32, "127.0.0.1:1")))
    made = sign(b"k" * 32, fields, method="POST", target=TARGET, body=body)
    assert fields["X-Registry-Signature"] == made


def test_the_file_holds_requests_of_one_length(tmp_path: Path) -> None:
    prepared = prepare(tmp_path / "deliveries", 50, b"k" * 32, "127.0.0.1:1")
    content = prepared.path.read_bytes()
    assert len(content) == prepared.size * prepared.count
    starts = {content[at : at + 5] for at in range(0, len(content), prepared.size)}
    assert starts == {b"POST "}


def test_the_delivery_time_is_in_its_wire_form() -> None:
    assert delivery_time(1788048001.9) == "2026-08-30T00:00:01Z"
    assert delivery_time(time.time()).endswith("Z")
