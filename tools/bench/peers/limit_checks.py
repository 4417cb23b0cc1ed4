"""The checks of an admission by the fastest means: one pattern over all headers, prepared HMACs, msgspec and orjson."""

import base64
import hmac
import json
import re
import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any, Final

import msgspec
import orjson
import rfc8785

EVENT_LIMIT: Final = 131_072
SIGNED_LIMIT: Final = 32_768
DEPTH_LIMIT: Final = 64
DELIVERY_WINDOW: Final = 30.0
PAIR: Final = ("case-follow-up", "case-created")
TRIGGER: Final = ("urn:gatehouse:demo", "case-created-v1", "urn:gatehouse:demo:case-created-v1")
PATH: Final = "/v1/events/"

SIGNED_NAMES: Final = (
    b"ce-id",
    b"ce-source",
    b"ce-type",
    b"ce-time",
    b"ce-dataschema",
    b"x-registry-event-generation",
    b"x-registry-delivery-attempt",
    b"x-registry-delivery-time",
    b"content-type",
    b"idempotency-key",
    b"x-registry-signature",
)
SLOTS: Final = {name: slot for slot, name in enumerate((*SIGNED_NAMES, b"ce-specversion", b"content-encoding"))}

# The values of SLOTS, joined by line feeds, are matched as a whole.
UUID: Final = rb"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
COUNTER: Final = rb"[1-9][0-9]{0,18}"
TEXT: Final = rb"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?"
DATE: Final = rb"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
SIGNED: Final = re.compile(
    rb"\n".join((*[TEXT] * 7, rb"(" + DATE + rb")(\.\d{0,8}[1-9])?Z", TEXT, TEXT, rb"v1=[A-Za-z0-9_-]{43}"))
)
VALID: Final = re.compile(
    rb"\n".join(
        (
            *(UUID, TEXT, TEXT, DATE + rb"(?:\.\d{0,2}[1-9])?Z", TEXT, COUNTER, COUNTER, rb".+"),
            *(rb"(?i:application/json)(?:\s*;.*)?", rb".{1,256}", rb".+", rb"1\.0", rb"(?i:identity)?"),
        )
    )
)
DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
LONG_NUMBER: Final = b"0" * 16

UuidText = Annotated[str, msgspec.Meta(pattern=f"^{UUID.decode()}$", max_length=36)]
Revision = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]


class Causation(msgspec.Struct, forbid_unknown_fields=True):
    hop: Annotated[int, msgspec.Meta(ge=0, le=8)]
    root: UuidText
    parent: UuidText | msgspec.UnsetType = msgspec.UNSET


class RecordSubject(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    record_reference: str
    record_revision: Revision


class Envelope(msgspec.Struct, forbid_unknown_fields=True):
    causation: Causation
    data: Any
    dataschema: str
    id: UuidText
    source: str
    subject: RecordSubject
    time: str
    type: str


class UnusualNumber(Exception):
    """A number with a fraction or an exponent."""


def refuse_number(_: str) -> float:
    """Leave a number to the reference implementation."""
    raise UnusualNumber


USUAL: Final = msgspec.json.Decoder(Envelope, float_hook=refuse_number)


class Problem(Exception):
    """A refusal with its code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


class Key:
    """HMAC-SHA-256 with its two pads hashed beforehand.

    hmac.digest would let go of the interpreter, and wait to have it back, for each message.
    """

    def __init__(self, secret: bytes) -> None:
        block = (sha256(secret).digest() if len(secret) > 64 else secret).ljust(64, b"\0")
        self._inner = sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = sha256(bytes(byte ^ 0x5C for byte in block))

    def signature(self, signed: bytes) -> bytes:
        """The v1 signature as it stands in the header."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(signed)
        outer.update(inner.digest())
        return b"v1=" + base64.urlsafe_b64encode(outer.digest())[:43]


DUMMY_KEYS: Final = (Key(secrets.token_bytes(32)), Key(secrets.token_bytes(32)))


@dataclass(slots=True)
class Candidate:
    """A verified delivery; `fault` is the problem that only a new identity meets, `input` the run's input as JSON."""

    workflow: str
    trigger: str
    source: str
    event_id: str
    idempotency_key: str
    digest: str
    input: str
    fault: Problem | None


def candidate(scope: dict[str, Any], body: bytes, key: Key) -> Candidate:
    """Check a delivery in the order of ARCHITECTURE.md, steps 2 to 9; raises Problem."""
    workflow, _, trigger = scope["path"][len(PATH) :].partition("/")
    values = header_values(scope["headers"])
    authenticate(scope, values, body, (workflow, trigger) == PAIR, key)
    if VALID.fullmatch(b"\n".join(values)) is None or seconds(values[3][:19]) is None:
        raise Problem(400, "request.invalid")
    texts = [value.decode() for value in values]
    envelope = read_envelope(body)
    if texts[:5] != [envelope.id, envelope.source, envelope.type, envelope.time, envelope.dataschema]:
        raise Problem(400, "event.invalid")
    run_input, fault = mapped(envelope, body)
    return Candidate(
        workflow=workflow,
        trigger=trigger,
        source=envelope.source,
        event_id=envelope.id.replace("-", "").lower(),
        idempotency_key=texts[9],
        digest=f"sha256:{sha256(body).hexdigest()}",
        input=run_input,
        fault=fault,
    )


def header_values(headers: list[tuple[bytes, bytes]]) -> list[bytes]:
    """The values in the order of SLOTS, "" for what is absent; raises Problem where a signed one is repeated."""
    values = [b""] * len(SLOTS)
    for name, value in headers:
        slot = SLOTS.get(name)
        if slot is not None:
            if values[slot] and slot < len(SIGNED_NAMES):
                raise Problem(401, "event.unauthenticated")
            values[slot] += value
    return values


def authenticate(scope: dict[str, Any], values: list[bytes], body: bytes, known: bool, key: Key) -> None:
    """Verify delivery time and signature, with two HMACs for every well-formed delivery; raises Problem."""
    match = SIGNED.fullmatch(b"\n".join(values[: len(SIGNED_NAMES)]))
    query = scope["query_string"]
    target = scope["raw_path"] + b"?" + query if query else scope["raw_path"]
    fields = [*values[:8], scope["method"].encode(), target, values[8], values[9]]
    if match is None or sum(map(len, fields)) > SIGNED_LIMIT or not is_recent(match[1], match[2]):
        raise Problem(401, "event.unauthenticated")
    signed = b"breg-webhook-signature-v1" + b"".join(
        [len(value).to_bytes(8, "big") + value for value in (b"1.0", *fields, body)]
    )
    first = (key if known else DUMMY_KEYS[0]).signature(signed)
    second = DUMMY_KEYS[1].signature(signed)
    matches = hmac.compare_digest(first, values[10]), hmac.compare_digest(second, values[10])
    if not (known and any(matches)):
        raise Problem(401, "event.unauthenticated")


@lru_cache(maxsize=64)
def seconds(text: bytes) -> float | None:
    """Seconds since the epoch; None for a date that does not exist."""
    try:
        return datetime.fromisoformat(f"{text.decode()}+00:00").timestamp()
    except ValueError:
        return None


def is_recent(whole: bytes, fraction: bytes | None) -> bool:
    """Whether a delivery time is at most thirty seconds away."""
    at = seconds(whole)
    return at is not None and abs(time.time() - at - float(fraction or 0)) <= DELIVERY_WINDOW


def read_envelope(body: bytes) -> Envelope:
    """The envelope of canonical bytes; raises Problem."""
    try:
        if body.count(b"{") + body.count(b"[") > DEPTH_LIMIT:
            check_depth(json.loads(body.decode()))
        envelope = read_usual(body) or read_unusual(body)
    except (ValueError, RecursionError):
        raise Problem(400, "event.invalid") from None
    if not fits_its_chain(envelope):
        raise Problem(400, "event.invalid")
    return envelope


def read_usual(body: bytes) -> Envelope | None:
    """The envelope, where all of it is written alike by orjson and RFC 8785; raises ValueError.

    They differ on fractions, exponents, long numbers and supplementary characters.
    """
    if LONG_NUMBER in body.translate(DIGITS) or (not body.isascii() and max(body) >= 0xF0):
        return None
    if orjson.dumps(orjson.loads(body), option=orjson.OPT_SORT_KEYS) != body:
        return None
    try:
        return USUAL.decode(body)
    except UnusualNumber:
        return None


def read_unusual(body: bytes) -> Envelope:
    """The envelope by the reference implementation; raises ValueError."""
    value = json.loads(body.decode(), parse_int=exact)
    if rfc8785.dumps(value) != body:
        raise ValueError("not canonical")
    return msgspec.json.decode(body, type=Envelope)


def exact(digits: str) -> int | float:
    """An integer token as RFC 8785 sees it, a binary64."""
    return int(digits) if len(digits) < 16 else float(digits)


def check_depth(value: object, level: int = 1) -> None:
    """Raise ValueError for what is nested deeper than DEPTH_LIMIT; the envelope is level 1."""
    if isinstance(value, dict | list):
        if level > DEPTH_LIMIT:
            raise ValueError("too deep")
        for member in value.values() if isinstance(value, dict) else value:
            check_depth(member, level + 1)


def fits_its_chain(envelope: Envelope) -> bool:
    """Whether a root event has no parent and is its own root, and any other a parent and a root beside itself."""
    own, root, parent = envelope.id.lower(), envelope.causation.root.lower(), envelope.causation.parent
    if envelope.causation.hop == 0:
        return parent is msgspec.UNSET and root == own
    return parent is not msgspec.UNSET and own not in {parent.lower(), root}


def mapped(envelope: Envelope, body: bytes) -> tuple[str, Problem | None]:
    """The run's input, or the fault that a new identity meets (steps 7 to 9)."""
    if len(body) > EVENT_LIMIT:
        return "", Problem(413, "event.too-large")
    if (envelope.source, envelope.type, envelope.dataschema) != TRIGGER:
        return "", Problem(400, "event.invalid")
    case_id = envelope.data.get("caseId") if isinstance(envelope.data, dict) else None
    if not isinstance(case_id, str):
        return "", Problem(400, "input.invalid")
    return orjson.dumps({"caseId": case_id}).decode(), None
