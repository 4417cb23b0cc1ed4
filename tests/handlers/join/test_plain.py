from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from generated.join import models
from generated.join.operations.report_join_events import OPERATION
from handlers.gateway.bodies import Bodies, BytesFault, SchemaFault
from handlers.gateway.schemas import Describer
from handlers.gateway.strict_json import loads_as
from handlers.join.api import join_document
from handlers.join.plain import MOST_EVENTS, PLAIN, PlainReport
from tests.support.effort import tries
from tests.support.nodes import line, lines, step
from tools.bench.reports import report

CONTRACT = json.loads(join_document())
DECODER = msgspec.json.Decoder(PlainReport)
assert OPERATION.body is not None
BY_SCHEMA = Bodies(CONTRACT, OPERATION.body, Describer(CONTRACT))


def plainly(raw: bytes) -> PlainReport | None:
    found = loads_as(DECODER, raw)
    return found if found is not None and PLAIN.holds(found) else None


def by_schema(raw: bytes) -> models.JoinReport | None:
    try:
        found: models.JoinReport = BY_SCHEMA.decode(raw, "application/json")
    except (BytesFault, SchemaFault):
        return None
    return found


def agree(raw: bytes) -> bool:
    """Whether the schema takes what is plain, and makes the same of it."""
    found = plainly(raw)
    return found is None or msgspec.to_builtins(found) == msgspec.to_builtins(by_schema(raw))


def spelled(*events: Any, **more: Any) -> bytes:
    return json.dumps({"events": events} | more, separators=(",", ":")).encode()


USUAL: dict[str, bytes] = {
    "nothing": b'{"events":[]}',
    "as programs log": report(500),
    "as msgspec, orjson and browsers spell it": json.dumps(
        {"events": [line('"\N{SNOWMAN}\n', at="2026-04-15T12:00:00Z")]}, separators=(",", ":"), ensure_ascii=False
    ).encode(),
    "with spaces": json.dumps({"events": lines(1, 3)}, indent=1).encode(),
    "in another order": b'{"events":[{"at":"2026-04-15T12:00:00.123456Z","message":"m","type":"log"}]}',
    "with needless escapes": b'{"\\u0065vents":[{"type":"l\\u006fg","message":"\\/\\u0022\\ud83d\\ude00\\u0000"}]}',
    "steps": spelled(step("services", "running"), step("", "failed", message="no disk", at="0001-01-01T00:00:00Z")),
    "a line with a step and a status": spelled(line("m", step="other", status="done")),
}


@pytest.mark.parametrize("what", USUAL)
def test_what_nodes_usually_send_is_plain(what: str) -> None:
    found = plainly(USUAL[what])
    assert isinstance(found, models.JoinReport)
    assert agree(USUAL[what])


OTHERS: dict[str, bytes] = {
    "no event": b"{}",
    "a list": b"[]",
    "a line without a message": spelled({"type": "log", "step": "services"}),
    "a step without a status": spelled({"type": "step", "step": "services"}),
    "a step without a name": spelled({"type": "step", "status": "done"}),
    "another type": spelled({"type": "note", "message": "m"}),
    "another status": spelled(line("m", status="waiting")),
    "null": spelled(line("m", step=None)),
    "a number": spelled(line("m", at=1)),
    "no time": spelled(line("m", at="yesterday")),
    "a day that does not exist": spelled(line("m", at="2026-02-30T12:00:00Z")),
    "too many events": spelled(*lines(1, 501)),
    "a repeated member": b'{"events":[{"type":"log","message":"m","message":"m"}]}',
    "repeated events": b'{"events":[],"events":[]}',
    "a lone surrogate": b'{"events":[{"type":"log","message":"\\ud800"}]}',
    "bytes that are no UTF-8": b'{"events":[{"type":"log","message":"\xff"}]}',
    "a control character": b'{"events":[{"type":"log","message":"\t"}]}',
    "two values": b'{"events":[]}{}',
    "a byte order mark": b'\xef\xbb\xbf{"events":[]}',
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_the_schema_refuses_is_not_plain(what: str) -> None:
    assert plainly(OTHERS[what]) is None
    assert by_schema(OTHERS[what]) is None


@pytest.mark.parametrize(
    "event",
    [
        line("m", unknown=[1]),
        line("m", at="2026-04-15t12:00:00z"),
        line("m", at="2026-04-15T14:00:00+02:00"),
        line("m", at="2026-04-15T23:59:60Z"),
        line("m", at="2026-04-15T12:00:00.1234567Z"),
    ],
)
def test_what_is_unusual_is_left_to_the_schema(event: dict[str, Any]) -> None:
    assert plainly(spelled(event)) is None
    assert by_schema(spelled(event)) is not None


def test_as_many_events_are_plain_as_the_document_takes() -> None:
    assert CONTRACT["components"]["schemas"]["JoinReport"]["properties"]["events"]["maxItems"] == MOST_EVENTS
    assert plainly(spelled(*lines(1, MOST_EVENTS))) is not None


SPACES = ("", " ", "\n\t ")


def object_text(members: Sequence[tuple[str, str]], chance: random.Random) -> str:
    """JSON text of an object, whose members may be repeated and in any order, with spaces here and there."""
    mixed = [*members]
    if chance.random() < 0.3:
        chance.shuffle(mixed)
    if mixed and chance.random() < 0.1:
        mixed.append(chance.choice(mixed))
    space = chance.choice(SPACES)
    return "{" + f",{space}".join(f"{space}{text(name, chance)}:{space}{value}" for name, value in mixed) + "}"


def text(value: str, chance: random.Random) -> str:
    """JSON text of a string, where some characters may be escaped without need."""
    if chance.random() < 0.7:
        return json.dumps(value, ensure_ascii=False)
    return '"' + "".join(f"\\u{ord(c):04x}" if c < "\uffff" else json.dumps(c)[1:-1] for c in value) + '"'


PARTS = (
    ("2026", "0000", "0001", "9999", "-026", "02026"),
    ("-",),
    ("04", "02", "00", "13", "4"),
    ("-",),
    ("15", "28", "29", "30", "31", "00", "32"),
    ("T", "T", "T", "t", " ", ""),
    ("12", "00", "23", "24", "1"),
    (":", ":", ":", ":", ""),
    ("00", "59", "60"),
    (":",),
    ("00", "59", "60", "61", "0\N{FULLWIDTH DIGIT ZERO}"),
    ("", ".5", ".123", ".999999", ".9999999", ".", ",5"),
    ("Z", "Z", "Z", "z", "+00:00", "-00:01", "+23:59", "+24:00", "+0100", "", "Z "),
)


def time_text(chance: random.Random) -> str:
    return "".join(part[0] if chance.random() < 0.85 else chance.choice(part) for part in PARTS)


TYPES = ("log", "log", "log", "step", "step", "note")
STATUSES = ("running", "done", "failed", "waiting")
VALUES: dict[str, Callable[[random.Random], str]] = {
    "type": lambda chance: chance.choice(TYPES),
    "step": lambda chance: chance.choice(("services", "complete", "", '"')),
    "status": lambda chance: chance.choice(STATUSES),
    "message": lambda chance: "".join(chance.choice('a"\\/\n\0\N{SNOWMAN}\U0001f600') for _ in range(4)),
    "at": time_text,
    "level": lambda _: "info",
}


def event_text(chance: random.Random) -> str:
    members = []
    for name, odds in (("type", 0.98), ("step", 0.5), ("status", 0.4), ("message", 0.9), ("at", 0.6), ("level", 0.05)):
        if chance.random() < odds:
            odd = chance.random() < 0.03
            value = chance.choice(("null", "1", "[]", "{}", "true")) if odd else text(VALUES[name](chance), chance)
            members.append((name, value))
    return object_text(members, chance)


def report_text(chance: random.Random) -> bytes:
    events = "[" + ",".join(event_text(chance) for _ in range(chance.choice((0, 1, 1, 1, 2, 3)))) + "]"
    raw = bytearray(object_text([("events", events)], chance).encode())
    if chance.random() < 0.2:
        place = chance.randrange(len(raw))
        raw[place : place + chance.randrange(2)] = bytes([chance.choice(b'"\\{}[]:,\0 \xff\xc3\xed0ude')])
    return bytes(raw)


def test_the_schema_takes_thousands_of_generated_reports_that_are_plain_and_makes_the_same_of_them() -> None:
    chance = random.Random(7)
    plain = taken = 0
    for _ in range(tries(200_000, elsewhere=20_000)):
        raw = report_text(chance)
        assert agree(raw), raw
        plain += plainly(raw) is not None
        taken += by_schema(raw) is not None
    # Else the test would prove little.
    assert taken > plain > taken / 3


events = st.fixed_dictionaries(
    {"type": st.sampled_from(["log", "step"])},
    optional={
        "step": st.text() | st.none(),
        "status": st.sampled_from(STATUSES),
        "message": st.text() | st.integers(),
        "at": st.datetimes().map(lambda moment: f"{moment.isoformat()}Z") | st.text(),
        "other": st.none(),
    },
)


@seed(7)
@settings(max_examples=tries(5_000, elsewhere=300), database=None, deadline=None)
@given(st.lists(events), st.booleans(), st.binary(max_size=2), st.integers(0, 200))
def test_the_schema_takes_any_report_that_is_plain(
    sent: list[dict[str, Any]], ascii_alone: bool, noise: bytes, place: int
) -> None:
    raw = json.dumps({"events": sent}, ensure_ascii=ascii_alone).encode(errors="surrogatepass")
    for each in (raw, raw[:place] + noise + raw[place:], raw[:place] + noise + raw[place + len(noise) :]):
        assert agree(each)
