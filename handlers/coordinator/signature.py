"""The v1 delivery signature: how a producer makes it, and how a delivery is authenticated before anything is parsed."""

from __future__ import annotations

import hmac
import struct
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from generated.coordinator.operations.admit_event import EventSourceUnavailable
from generated.coordinator.security import RegistrySignature
from generated.runtime import Incoming
from handlers.coordinator import wire_time
from handlers.coordinator.sources import KeyState, Sources, key_state

SIGNATURE: Final = b"x-registry-signature"
DELIVERY_TIME: Final = b"x-registry-delivery-time"

# The signed headers, before and after the method and the request target.
_LEADING: Final = (
    b"ce-id",
    b"ce-source",
    b"ce-type",
    b"ce-time",
    b"ce-dataschema",
    b"x-registry-event-generation",
    b"x-registry-delivery-attempt",
    DELIVERY_TIME,
)
_TRAILING: Final = (b"content-type", b"idempotency-key")
_NAMES: Final = frozenset((*_LEADING, *_TRAILING, SIGNATURE))
_leading = itemgetter(*_LEADING)
_trailing = itemgetter(*_TRAILING)

MAX_FIELD_BYTES: Final = 32_768
WINDOW_NANOSECONDS: Final = 30_000_000_000

_VISIBLE_AND_SPACE: Final = bytes(range(0x20, 0x7F))
_BASE64URL: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_VERSION: Final = b"v1="
_SIGNATURE_BYTES: Final = len(_VERSION) + 43

_length = struct.Struct(">Q").pack
_OPENING: Final = b"breg-webhook-signature-v1" + _length(3) + b"1.0"
# The opening, and the lengths of the twelve fields and of the body.
FRAMING_BYTES: Final = len(_OPENING) + 13 * 8
_PADDING: Final = memoryview(bytes(FRAMING_BYTES + MAX_FIELD_BYTES))


def sign(key: bytes, headers: Mapping[str, str], *, method: str, target: str, body: bytes) -> str:
    """Return the value of X-Registry-Signature (admitEvent in spec/coordinator.yaml).

    `headers` holds the ten signed headers, in any letter case and among others; `target` is the path with `?` and
    query as it is sent. Raises KeyError for a header that is missing, ValueError for text that is not ASCII and for a
    key of fewer than 32 bytes.
    """
    values = {name.lower().encode(): value.encode("ascii") for name, value in headers.items()}
    fields = _fields(values, method.encode("ascii"), target.encode("ascii"))
    return _written(_hmac(key_state(key), _signing_input(fields, body))).decode()


async def registry_signature(
    sources: Sources, incoming: Incoming, *, clock: Callable[[], int] = time.time_ns
) -> RegistrySignature | None:
    """Authenticate a delivery; None refuses it, whatever the cause, after the same work.

    That work is two HMACs over as many bytes as the longest delivery with this body would have. `clock` gives
    nanoseconds since the epoch. Raises EventSourceUnavailable where all is well formed but a configured key cannot
    be read, and whatever reading the body raises.
    """
    body = await incoming.body()
    keys = sources.find(incoming.path_parameters["workflow"], incoming.path_parameters["trigger"])
    delivery = _delivery(incoming)
    message = _signing_input(delivery.fields, body) if delivery else body
    presented = delivery.signature if delivery else bytes(_SIGNATURE_BYTES)
    running = [state.copy() for state in keys.states]
    matches = [hmac.compare_digest(_written(_hmac(each, message)), presented) for each in running]
    timely = delivery is not None and abs(clock() - delivery.time) <= WINDOW_NANOSECONDS
    if timely and keys.readable and True in matches[: keys.configured]:
        return RegistrySignature(key_number=matches.index(True) + 1)
    for each in running:
        _hmac(each, _PADDING[len(message) - len(body) :])
    if timely and not keys.readable:
        raise EventSourceUnavailable("A key of this event's source cannot be read.")
    return None


class _Delivery(NamedTuple):
    """What a delivery says of itself, well formed and not yet believed; `time` in nanoseconds since the epoch."""

    fields: Sequence[bytes]
    signature: bytes
    time: int


def _delivery(incoming: Incoming) -> _Delivery | None:
    """Read the twelve signed fields and the signature; None where one is absent, repeated, empty or malformed."""
    given = [header for header in incoming.headers if header[0] in _NAMES]
    values = dict(given)
    if not len(given) == len(values) == len(_NAMES):
        return None
    fields = _fields(values, incoming.method.encode(), incoming.target)
    signature = values[SIGNATURE]
    if not _sound(fields) or not _well_formed(signature):
        return None
    delivered = wire_time.parse(values[DELIVERY_TIME].decode(), 9)
    return None if delivered is None else _Delivery(fields, signature, delivered)


def _fields(values: Mapping[bytes, bytes], method: bytes, target: bytes) -> Sequence[bytes]:
    return (*_leading(values), method, target, *_trailing(values))


def _sound(fields: Sequence[bytes]) -> bool:
    joined = b"".join(fields)
    return len(joined) <= MAX_FIELD_BYTES and all(fields) and not joined.translate(None, _VISIBLE_AND_SPACE)


def _well_formed(signature: bytes) -> bool:
    return (
        len(signature) == _SIGNATURE_BYTES
        and signature.startswith(_VERSION)
        and not signature[len(_VERSION) :].translate(None, _BASE64URL)
    )


def _signing_input(fields: Sequence[bytes], body: bytes) -> bytes:
    parts = [_OPENING]
    for value in (*fields, body):
        parts += (_length(len(value)), value)
    return b"".join(parts)


def _hmac(running: KeyState, chunk: bytes | memoryview) -> bytes:
    """Take more of a message and return the HMAC so far; every byte that a delivery has hashed passes here."""
    running.update(chunk)
    return running.digest()


def _written(digest: bytes) -> bytes:
    return _VERSION + urlsafe_b64encode(digest).rstrip(b"=")
