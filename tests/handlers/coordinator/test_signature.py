from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from generated.coordinator.operations.admit_event import EventSourceUnavailable
from generated.coordinator.security import RegistrySignature
from handlers.coordinator import signature as module
from handlers.coordinator.signature import registry_signature, sign
from handlers.coordinator.sources import Sources
from handlers.coordinator.wire_time import parse

# The vector that the producing product pins.
VECTOR_KEY: Final = b"webhook-delivery-signing-key-0123456789abcdef"
VECTOR_HEADERS: Final = {
    "ce-id": "00000000-0000-4000-8000-000000000001",
    "ce-source": "urn:registrystack:registry:example:instance:primary",
    "ce-type": "case-created-v1",
    "ce-time": "2026-08-30T00:00:00Z",
    "ce-dataschema": "urn:registrystack:registry:example:event:case-created-v1:schema:sha256:aaa",
    "X-Registry-Event-Generation": "1",
    "X-Registry-Delivery-Attempt": "1",
    "X-Registry-Delivery-Time": "2026-08-30T00:00:01Z",
    "Content-Type": "application/json",
    "Idempotency-Key": "sha256:" + "a" * 64,
}
VECTOR_TARGET: Final = "/hooks/registry"
VECTOR_BODY: Final = b'{"entity":"case","values":{"label":"value"}}'
VECTOR_SIGNATURE: Final = "v1=OzL5k0ghZJb9nPbb-JOVsroWeanipBlZXbeKDd52RcM"

NOW: Final = 1_788_048_001_000_000_000
SECOND: Final = 1_000_000_000
OTHER_KEY: Final = b"the other of the two keys, 32 bytes or more"
FIELD_LIMIT: Final = 32_768
FRAMING: Final = 25 + 14 * 8 + 3


def independent_signature(
    headers: Mapping[str, str], *, version: str = "1.0", method: str = "POST", target: str, body: bytes, key: bytes
) -> str:
    values = [version, *list(headers.values())[:8], method, target, *list(headers.values())[8:10]]
    message = b"breg-webhook-signature-v1"
    for value in [*(text.encode() for text in values), body]:
        message += len(value).to_bytes(8, "big") + value
    return "v1=" + base64.urlsafe_b64encode(hmac.digest(key, message, hashlib.sha256)).decode().rstrip("=")


@dataclass(frozen=True)
class Delivery:
    """A delivery as the gateway gives it to an authenticator; by default the vector's."""

    headers: Sequence[tuple[bytes, bytes]] = field(
        default_factory=lambda: wire(VECTOR_HEADERS | {"X-Registry-Signature": VECTOR_SIGNATURE})
    )
    method: str = "POST"
    target: bytes = VECTOR_TARGET.encode()
    content: bytes = VECTOR_BODY
    path_parameters: Mapping[str, str] = field(default_factory=lambda: {"workflow": "flow", "trigger": "one"})
    client: str = "192.0.2.1"
    tls: Mapping[str, Any] | None = None

    async def body(self) -> bytes:
        return self.content


def wire(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    others = [(b"host", b"example.com"), (b"ce-specversion", b"1.0"), (b"content-length", b"44")]
    return others + [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


def signed(
    changes: Mapping[str, str] | None = None,
    *,
    key: bytes = VECTOR_KEY,
    target: str = VECTOR_TARGET,
    body: bytes = VECTOR_BODY,
) -> Delivery:
    """A delivery of changed headers, target or body that is rightly signed."""
    headers = {**VECTOR_HEADERS, **(changes or {})}
    headers["X-Registry-Signature"] = independent_signature(headers, target=target, body=body, key=key)
    return Delivery(wire(headers), target=target.encode(), content=body)


def with_header(name: str, value: bytes) -> Delivery:
    good = Delivery()
    return replace(good, headers=[(each, value if each == name.lower().encode() else it) for each, it in good.headers])


def without_header(name: str) -> Delivery:
    good = Delivery()
    return replace(good, headers=[header for header in good.headers if header[0] != name.lower().encode()])


def twice(name: str) -> Delivery:
    good = Delivery()
    return replace(
        good, headers=[*good.headers, *(header for header in good.headers if header[0] == name.lower().encode())]
    )


@dataclass(frozen=True)
class Entry:
    workflow: str
    trigger: str
    key_files: Sequence[Path]


class Server:
    """The sources of one pair, whose key files a test may change."""

    def __init__(self, folder: Path) -> None:
        self.first, self.second = folder / "first.key", folder / "second.key"
        self.first.write_bytes(VECTOR_KEY)
        self.second.write_bytes(OTHER_KEY)
        settings = folder / "gatehouse.yaml"
        settings.touch()
        entries = [Entry("flow", "one", [self.first]), Entry("flow", "two", [self.first, self.second])]
        self.sources = Sources(lambda: entries, settings)

    def verify(self, delivery: Delivery, *, now: int = NOW, trigger: str | None = None) -> RegistrySignature | None:
        if trigger is not None:
            delivery = replace(delivery, path_parameters={"workflow": "flow", "trigger": trigger})
        return asyncio.run(_awaited(registry_signature(self.sources, delivery, clock=lambda: now)))


async def _awaited(result: Awaitable[RegistrySignature | None]) -> RegistrySignature | None:
    return await result


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


class Work:
    """What was hashed: bytes for each running HMAC, and how often each was asked for its value."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._counted: dict[int, list[int]] = defaultdict(list)
        self._alive: list[object] = []
        take = module._hmac

        def counting(running: hmac.HMAC, chunk: bytes | memoryview) -> bytes:
            self._alive.append(running)
            self._counted[id(running)].append(len(chunk))
            return take(running, chunk)

        monkeypatch.setattr(module, "_hmac", counting)

    def take(self) -> list[tuple[int, int]]:
        """Return (bytes, calls) of each HMAC since the last time."""
        work = [(sum(lengths), len(lengths)) for lengths in self._counted.values()]
        self._counted.clear()
        return work


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


SIGNED_HEADERS: Final = list(VECTOR_HEADERS)
REQUIRED_HEADERS: Final = [*SIGNED_HEADERS, "X-Registry-Signature"]


def test_the_vector_signs_to_its_value() -> None:
    assert sign(VECTOR_KEY, VECTOR_HEADERS, method="POST", target=VECTOR_TARGET, body=VECTOR_BODY) == VECTOR_SIGNATURE
    assert (
        independent_signature(VECTOR_HEADERS, target=VECTOR_TARGET, body=VECTOR_BODY, key=VECTOR_KEY)
        == VECTOR_SIGNATURE
    )


def test_signing_takes_header_names_in_any_letter_case_and_passes_over_others() -> None:
    headers = {name.upper(): value for name, value in VECTOR_HEADERS.items()} | {"Host": "example.com"}
    assert sign(VECTOR_KEY, headers, method="POST", target=VECTOR_TARGET, body=VECTOR_BODY) == VECTOR_SIGNATURE


@pytest.mark.parametrize("name", SIGNED_HEADERS)
def test_signing_asks_for_every_signed_header(name: str) -> None:
    headers = {each: value for each, value in VECTOR_HEADERS.items() if each != name}
    with pytest.raises(KeyError):
        sign(VECTOR_KEY, headers, method="POST", target=VECTOR_TARGET, body=VECTOR_BODY)


def test_signing_refuses_a_short_key_and_text_that_is_not_ascii() -> None:
    with pytest.raises(ValueError, match="32"):
        sign(VECTOR_KEY[:31], VECTOR_HEADERS, method="POST", target=VECTOR_TARGET, body=VECTOR_BODY)
    with pytest.raises(ValueError, match="ascii"):
        sign(
            VECTOR_KEY, VECTOR_HEADERS | {"ce-type": "caf\u00e9"}, method="POST", target=VECTOR_TARGET, body=VECTOR_BODY
        )
    with pytest.raises(ValueError, match="ascii"):
        sign(VECTOR_KEY, VECTOR_HEADERS, method="POST", target="/caf\u00e9", body=VECTOR_BODY)


def test_the_vector_verifies(server: Server) -> None:
    assert server.verify(Delivery()) == RegistrySignature(key_number=1)


@pytest.mark.parametrize(
    "target", ["/v1/events/a/b?x=1", "/v1/events/a/b?", "/a%2Fb", "/a%C3%B6", "/%7e", "/~", "/a?b=c&d=%20"]
)
def test_the_target_is_signed_as_it_was_sent(server: Server, target: str) -> None:
    assert server.verify(signed(target=target)) is not None
    for other in ("/v1/events/a/b", "/a/b", "/%7E", target + "?", target.lower() + "/"):
        assert other == target or server.verify(replace(signed(target=target), target=other.encode())) is None


@pytest.mark.parametrize("body", [b"", b"x", b"\x00\xff" * 500, b"z" * 1_048_576])
def test_any_body_can_be_signed(server: Server, body: bytes) -> None:
    assert server.verify(signed(body=body)) is not None
    assert server.verify(replace(signed(body=body), content=body + b"x")) is None
    assert server.verify(replace(signed(body=body), content=b"y" + body[1:])) is None


@pytest.mark.parametrize(
    "content_type",
    ["Application/JSON", "application/json; charset=utf-8", "application/json;charset=UTF-8", "text/plain"],
)
def test_the_content_type_is_signed_as_it_was_sent(server: Server, content_type: str) -> None:
    assert server.verify(signed({"Content-Type": content_type})) is not None
    assert server.verify(replace(signed({"Content-Type": content_type}), headers=Delivery().headers)) == (
        RegistrySignature(key_number=1)
    )
    changed = [(name, b"application/json" if name == b"content-type" else value)
               for name, value in signed({"Content-Type": content_type}).headers]  # fmt: skip
    assert server.verify(replace(Delivery(), headers=changed)) is None


def test_a_value_may_have_spaces_inside(server: Server) -> None:
    assert server.verify(signed({"ce-type": "case created v1", "Idempotency-Key": "a b  c"})) is not None


CHANGES: Final[Mapping[str, Delivery]] = {
    **{f"{name} longer": with_header(name, VECTOR_HEADERS[name].encode() + b"1") for name in SIGNED_HEADERS},
    **{f"{name} other": with_header(name, b"9" + VECTOR_HEADERS[name].encode()[1:]) for name in SIGNED_HEADERS},
    "delivered a second later": with_header("X-Registry-Delivery-Time", b"2026-08-30T00:00:02Z"),
    "method": Delivery(method="PUT"),
    "method in lower case": Delivery(method="post"),
    "target": Delivery(target=b"/hooks/registry?"),
    "body": Delivery(content=VECTOR_BODY + b"\n"),
    "moved between fields": replace(
        Delivery(),
        headers=[
            (name, {b"ce-id": value + b"u", b"ce-source": value[1:]}.get(name, value))
            for name, value in Delivery().headers
        ],
    ),
    "version": Delivery(
        wire(VECTOR_HEADERS | {"X-Registry-Signature": independent_signature(
            VECTOR_HEADERS, version="1.1", target=VECTOR_TARGET, body=VECTOR_BODY, key=VECTOR_KEY)})
    ),
    "key": signed(key=OTHER_KEY),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_any_of_the_fourteen_values_or_of_the_key_is_refused(server: Server, change: str) -> None:
    assert server.verify(CHANGES[change]) is None


def signature_text(text: str) -> Delivery:
    return with_header("X-Registry-Signature", text.encode("latin-1"))


SIGNATURES: Final[Mapping[str, Delivery]] = {
    "of another version": signature_text(VECTOR_SIGNATURE.replace("v1", "v2")),
    "in upper case": signature_text(VECTOR_SIGNATURE.replace("v1", "V1")),
    "without version": signature_text(VECTOR_SIGNATURE[3:]),
    "shorter": signature_text(VECTOR_SIGNATURE[:-1]),
    "longer": signature_text(VECTOR_SIGNATURE + "A"),
    "padded": signature_text(VECTOR_SIGNATURE + "="),
    "padded within its length": signature_text(VECTOR_SIGNATURE[:-1] + "="),
    "in base64": signature_text(VECTOR_SIGNATURE.replace("-", "+")),
    "in hex": signature_text("v1=" + "a" * 64),
    "with a byte beyond ASCII": signature_text(VECTOR_SIGNATURE[:-1] + "\u00e9"),
    "with a line feed": signature_text(VECTOR_SIGNATURE + "\n"),
    "two in one": signature_text(f"{VECTOR_SIGNATURE},{VECTOR_SIGNATURE}"),
}

MALFORMED: Final[Mapping[str, Delivery]] = {
    **{f"{name} absent": without_header(name) for name in REQUIRED_HEADERS},
    **{f"{name} repeated": twice(name) for name in REQUIRED_HEADERS},
    **{f"{name} empty": with_header(name, b"") for name in REQUIRED_HEADERS},
    **{f"{name} beyond ASCII": with_header(name, b"caf\xe9") for name in REQUIRED_HEADERS},
    **{f"{name} with a tab": with_header(name, b"a\tb") for name in REQUIRED_HEADERS},
    **{f"{name} with DEL": with_header(name, b"a\x7f") for name in REQUIRED_HEADERS},
    **{f"{name} with NUL": with_header(name, b"a\x00") for name in REQUIRED_HEADERS},
    **{f"{name} with a sign": with_header(name, b"-0") for name in ("X-Registry-Delivery-Time",)},
    "one absent, another repeated": replace(twice("ce-id"), headers=[
        header for header in twice("ce-id").headers if header[0] != b"ce-type"]),
    "no header at all": Delivery([]),
    "a target beyond ASCII": Delivery(target=b"/caf\xc3\xa9"),
    "fields too long": signed({"Idempotency-Key": "k" * FIELD_LIMIT}),
    "fields far too long": signed({"ce-type": "k" * FIELD_LIMIT * 20}),
    "target too long": signed(target="/" + "t" * FIELD_LIMIT),
    **{f"a signature {how}": delivery for how, delivery in SIGNATURES.items()},
    **{
        f"delivered at {time}": signed({"X-Registry-Delivery-Time": time})
        for time in ("2026-08-30t00:00:01z", "2026-08-30T00:00:01.0Z", "2026-08-30T00:00:01+00:00",
                     "2026-08-30T00:00:60Z", "2026-13-30T00:00:01Z", "2026-02-30T00:00:01Z",
                     "0000-08-30T00:00:01Z", "2026-08-30 00:00:01Z",
                     "2026-08-30T00:00:01.1234567891Z", "1788048001", "2026-08-30T24:00:00Z")
    },
}  # fmt: skip

UNTIMELY: Final[Mapping[str, Delivery]] = {
    f"delivered at {time}": signed({"X-Registry-Delivery-Time": time})
    for time in ("2026-08-30T00:00:31.000000001Z", "2026-08-29T23:59:30.999999999Z", "0001-01-01T00:00:00Z",
                 "9999-12-31T23:59:59Z")
}  # fmt: skip

UNKNOWN: Final[Mapping[str, Delivery]] = {
    f"for {workflow}/{trigger}": Delivery(path_parameters={"workflow": workflow, "trigger": trigger})
    for workflow, trigger in (("flow", "none"), ("none", "one"), ("", ""), ("w" * 5000, "one"), ("caf\u00e9", "\x00"))
}

UNVERIFIED: Final[Mapping[str, Delivery]] = {
    **CHANGES,
    "a signature of zeros": signature_text("v1=" + "A" * 43),
    "a signature with spare bits set": signature_text(VECTOR_SIGNATURE[:-1] + "N"),
}

REFUSED: Final[Mapping[str, Delivery]] = {**MALFORMED, **UNTIMELY, **UNKNOWN, **UNVERIFIED}


@pytest.mark.parametrize("cause", REFUSED)
def test_a_refused_delivery_has_no_principal(server: Server, cause: str) -> None:
    assert server.verify(REFUSED[cause]) is None


@pytest.mark.parametrize("body", [b"", b"x" * 1024, b"x" * 1_048_576], ids=len)
def test_every_refusal_is_two_hmacs_over_the_same_bytes_for_the_same_body(
    server: Server, work: Work, body: bytes
) -> None:
    expected = [(len(body) + FIELD_LIMIT + FRAMING, 2)] * 2
    for trigger in (None, "two", "none"):
        for cause, delivery in REFUSED.items():
            assert server.verify(replace(delivery, content=body), trigger=trigger) is None
            assert (cause, work.take()) == (cause, expected)


def test_a_valid_delivery_is_two_hmacs_over_its_own_bytes(server: Server, work: Work) -> None:
    target = "/t" * 100
    length = FRAMING + sum(map(len, VECTOR_HEADERS.values())) + len("POST") + len(target) + len(VECTOR_BODY)
    for trigger, key in (("one", VECTOR_KEY), ("two", VECTOR_KEY), ("two", OTHER_KEY)):
        assert server.verify(signed(target=target, key=key), trigger=trigger) is not None
        assert work.take() == [(length, 1)] * 2


def longest(extra: int) -> Delivery:
    others = sum(len(value) for name, value in VECTOR_HEADERS.items() if name != "Idempotency-Key")
    room = FIELD_LIMIT - others - len("POST") - len(VECTOR_TARGET)
    return signed({"Idempotency-Key": "k" * (room + extra)})


def test_the_twelve_fields_have_at_most_32768_bytes_together(server: Server, work: Work) -> None:
    assert server.verify(longest(0)) is not None
    assert work.take() == [(len(VECTOR_BODY) + FIELD_LIMIT + FRAMING, 1)] * 2
    assert server.verify(longest(1)) is None
    assert server.verify(longest(-1)) is not None


def test_no_key_is_tried_before_the_other_is_done(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        assert isinstance(one, bytes)
        assert isinstance(other, bytes)
        compared.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    for delivery in (Delivery(), signed(key=OTHER_KEY), *REFUSED.values()):
        compared.clear()
        server.verify(delivery, trigger="two")
        assert compared == [(46, 46)] * 2


@pytest.mark.parametrize("offset", [0, 1, -1, 30 * SECOND, -30 * SECOND, 30 * SECOND - 1, 1 - 30 * SECOND])
def test_a_delivery_within_thirty_seconds_on_either_side_is_taken_to_the_nanosecond(
    server: Server, offset: int
) -> None:
    assert server.verify(Delivery(), now=NOW + offset) is not None


@pytest.mark.parametrize("offset", [30 * SECOND + 1, -30 * SECOND - 1, 31 * SECOND, 86_400 * SECOND, -NOW, 10**20])
def test_a_delivery_beyond_thirty_seconds_on_either_side_is_refused_to_the_nanosecond(
    server: Server, offset: int
) -> None:
    assert server.verify(Delivery(), now=NOW + offset) is None


@pytest.mark.parametrize(
    "time", ["2026-08-30T00:00:01.999999999Z", "2026-08-30T00:00:01.5Z", "2026-08-29T23:59:59.000000001Z"]
)
def test_the_window_is_kept_for_times_with_a_fraction(server: Server, time: str) -> None:
    delivery = signed({"X-Registry-Delivery-Time": time})
    moment = parse(time, 9)
    assert moment is not None
    for offset in (-30 * SECOND, 30 * SECOND):
        assert server.verify(delivery, now=moment + offset) is not None
    for offset in (-30 * SECOND - 1, 30 * SECOND + 1):
        assert server.verify(delivery, now=moment + offset) is None


def test_the_wall_clock_is_the_clock_by_default(server: Server) -> None:
    assert asyncio.run(_awaited(registry_signature(server.sources, Delivery()))) is None


def test_either_of_two_keys_verifies_and_is_named_by_its_number(server: Server) -> None:
    assert server.verify(Delivery(), trigger="two") == RegistrySignature(key_number=1)
    assert server.verify(signed(key=OTHER_KEY), trigger="two") == RegistrySignature(key_number=2)
    assert server.verify(signed(key=OTHER_KEY), trigger="one") is None
    assert server.verify(signed(key=b"a third key, of thirty-two bytes or more"), trigger="two") is None


def test_a_key_that_is_replaced_while_serving_counts_from_the_next_delivery(server: Server) -> None:
    fresh = server.first.with_suffix(".new")
    fresh.write_bytes(OTHER_KEY)
    assert server.verify(Delivery()) is not None
    fresh.replace(server.first)
    assert server.verify(Delivery()) is None
    assert server.verify(signed(key=OTHER_KEY)) == RegistrySignature(key_number=1)


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def shorten(path: Path) -> None:
    path.write_bytes(VECTOR_KEY[:31])


@pytest.mark.parametrize("spoil", [remove, empty, shorten])
def test_an_unreadable_key_is_told_only_where_all_that_needs_no_key_is_well_formed(
    server: Server, work: Work, spoil: Callable[[Path], None]
) -> None:
    spoil(server.first)
    expected = [(len(VECTOR_BODY) + FIELD_LIMIT + FRAMING, 2)] * 2
    well_formed = [UNVERIFIED[cause] for cause in UNVERIFIED if not cause.startswith("X-Registry-Delivery-Time")]
    for delivery in (Delivery(), *well_formed):
        for trigger in ("one", "two"):
            with pytest.raises(EventSourceUnavailable) as unavailable:
                server.verify(replace(delivery, content=VECTOR_BODY), trigger=trigger)
            assert unavailable.value.headers == {"Retry-After": "5"}
            assert work.take() == expected
    for cause, delivery in ({**MALFORMED, **UNTIMELY, **UNKNOWN}).items():
        assert server.verify(replace(delivery, content=VECTOR_BODY)) is None
        assert (cause, work.take()) == (cause, expected)
    server.first.write_bytes(VECTOR_KEY)
    assert server.verify(Delivery()) is not None


def test_one_unreadable_key_of_two_is_told_also_where_the_other_would_verify(server: Server) -> None:
    server.second.unlink()
    with pytest.raises(EventSourceUnavailable):
        server.verify(Delivery(), trigger="two")
    assert server.verify(Delivery(), trigger="one") is not None


def test_a_dummy_key_signs_nothing_even_if_someone_knew_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = b"\x07" * 32
    monkeypatch.setattr("handlers.coordinator.sources.secrets.token_bytes", lambda _: known)
    server = Server(tmp_path)
    for trigger in ("one", "none"):
        assert server.verify(signed(key=known), trigger=trigger) is None
    assert server.verify(Delivery()) is not None
