from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tests.support import wire
from tests.support.contract import check
from tests.support.gatehouse import Gatehouse
from tests.support.nodes import JSON, RAFT, Node, line, lines, step
from tests.support.wire import Answer

INVALID: Final = (400, "INVALID_INPUT")
KEPT: Final = 2_000
LIMIT: Final = 4_194_304


@pytest.fixture(scope="module")
def node(founder: Gatehouse) -> Iterator[Node]:
    """A node whose turn it is; the tests of this module add to its log and leave its steps alone."""
    node = Node.in_turn(founder)
    yield node
    node.leave()


def log(node: Node, after: int = 0, limit: int = KEPT) -> list[dict[str, Any]]:
    return list(node.server.join_log(node.join_id, f"?after={after}&limit={limit}")["lines"])


def last(node: Node) -> int:
    """The number of the last line, 0 where there is none."""
    return max((each["seq"] for each in log(node)), default=0)


def added(node: Node, *events: Any, **how: Any) -> list[dict[str, Any]]:
    """Report events and return the lines that came of them."""
    before = last(node)
    answer = node.report(*events, **how)
    assert answer.status == 204, answer
    return log(node, before)


def send(node: Node, body: bytes, fields: dict[str, str | bytes] | None = None, **how: Any) -> Answer:
    return node.send("POST", f"{node.path}/events", JSON | (fields or {}), body, **how)


def refused(node: Node, *events: Any) -> list[str]:
    """Report events and return at which fields they are refused; fails where anything of them is stored."""
    before = log(node), node.server.registration(node.join_id)
    answer = node.report(*events)
    assert answer.outcome == INVALID, answer
    assert (log(node), node.server.registration(node.join_id)) == before
    return [error["field"] for error in answer.json["errors"]]


# What a batch is.


def test_a_batch_may_be_empty_and_has_at_most_500_events(node: Node) -> None:
    assert added(node) == []
    assert refused(node, *lines(0, 501)) == ["events"]


def test_an_event_lacks_nothing_that_its_type_needs(node: Node) -> None:
    good = line("a line")
    bads: list[Any] = [
        {"type": "step", "step": RAFT},
        {"type": "step", "status": "running"},
        {"type": "step", "message": "a line"},
        {"type": "log"},
        {"type": "log", "step": RAFT, "status": "running"},
        {"type": "note", "message": "a line"},
        {"message": "a line"},
        {"type": "log", "message": None},
        {"type": "log", "message": 1},
        {"type": "log", "message": ["a line"]},
        {"type": "step", "step": RAFT, "status": "waiting"},
        {"type": "step", "step": RAFT, "status": "Running"},
        {"type": "step", "step": None, "status": "running"},
        {"type": "log", "message": "a line", "step": 1},
        {"type": "log", "message": "a line", "at": 0},
        {"type": None},
        None,
        [],
        "a line",
        1,
    ]
    for bad in bads:
        fields = refused(node, good, bad, good)
        assert fields, bad
        assert all(field.startswith("events[1]") for field in fields), (bad, fields)


def test_a_batch_is_an_object_with_a_list_of_events(node: Node) -> None:
    before = last(node)
    bodies: list[Any] = [{}, {"events": None}, {"events": {}}, {"events": "x"}, {"Events": []}, [], None, "x", 1]
    for body in bodies:
        answer = node.post(f"{node.path}/events", body)
        assert answer.outcome == INVALID, body
        assert answer.json["errors"], body
    assert last(node) == before


def test_members_that_are_not_known_are_ignored(node: Node) -> None:
    event = line("known", more={"type": "step"}, seq=1, status="running")
    answer = node.post(f"{node.path}/events", {"events": [event], "more": [1], "joinId": "another"})
    assert answer.status == 204
    assert log(node)[-1]["message"] == "known"


def test_a_step_that_is_not_in_the_plan_is_refused_where_it_stands(node: Node) -> None:
    good = line("a line")
    for name in ("", "raft:", "raft:other", "Services", "services ", "services\u0000", "complete\n", "x" * 10_000):
        assert refused(node, good, step(name, "running"), good) == ["events[1].step"], name
        assert refused(node, line("a line", step=name), good) == ["events[0].step"], name


def test_two_equal_events_in_a_batch_are_two_events(node: Node) -> None:
    event = line("twice", at="2026-01-02T03:04:05Z", step="services")
    first, second = added(node, event, event)
    assert first | {"seq": first["seq"] + 1} == second
    assert len(added(node, event)) == 1


def test_a_line_is_shown_as_it_was_sent(node: Node) -> None:
    texts = [
        "",
        " ",
        "\u0000",
        "a\u0000b\u0000",
        "\t\r\n\u001b[31m",
        "\u007f\u0080\u2028\ufeff\uffff",
        "𝕊 😀 \U0010ffff",
        "e\u0301 é",
        '"\\/',
        "x" * 10_000,
    ]
    assert [each["message"] for each in added(node, *map(line, texts))] == texts
    named, unnamed = added(node, line("with a step", step="complete"), line("without"))
    assert (named["step"], unnamed["step"]) == ("complete", None)


def test_half_a_surrogate_pair_is_refused(node: Node) -> None:
    for text in ("\ud800", "\ude00\ud83d", "a\udfff"):
        assert refused(node, line(text))


def test_lines_are_read_from_any_number_on_and_as_many_as_asked_for(node: Node) -> None:
    first, second, third = added(node, *map(line, "abc"))
    before = first["seq"] - 1
    assert log(node, before, 2) == [first, second]
    assert log(node, second["seq"]) == [third]
    assert log(node, third["seq"]) == []
    assert log(node, 9_007_199_254_740_991) == []
    for query in (
        "?after=-1",
        "?after=+1",
        "?after=1_0",
        "?after=%201",
        "?after=%D9%A3",
        "?after=01",
        "?after=9007199254740992",
        "?after=",
        "?limit=0",
        "?limit=2001",
        "?limit=x",
        "?after=1&after=1",
    ):
        answer = node.server.operate("GET", f"{node.path}/log{query}")
        assert answer.outcome == INVALID, query
        assert answer.json["errors"], query


# When an event happened: case 8 of the public reports.

TIMES: Final = {
    "2026-01-02T03:04:05Z": "2026-01-02T03:04:05.000Z",
    "2026-01-02t03:04:05z": "2026-01-02T03:04:05.000Z",
    "2026-01-02T03:04:05z": "2026-01-02T03:04:05.000Z",
    "2026-01-02T03:04:05.1Z": "2026-01-02T03:04:05.100Z",
    "2026-01-02T03:04:05.0019Z": "2026-01-02T03:04:05.001Z",
    "2026-01-02T03:04:05.999999999999Z": "2026-01-02T03:04:05.999Z",
    "2026-01-02T03:04:05-00:00": "2026-01-02T03:04:05.000Z",
    "2026-01-02T03:04:05+00:00": "2026-01-02T03:04:05.000Z",
    "2026-01-02T03:04:05+05:30": "2026-01-01T21:34:05.000Z",
    "2026-01-02T03:04:05-23:59": "2026-01-03T03:03:05.000Z",
    "2016-12-31T23:59:60Z": "2017-01-01T00:00:00.000Z",
    "2016-12-31T23:59:60.5Z": "2017-01-01T00:00:00.500Z",
    "2016-12-31T15:59:60-08:00": "2017-01-01T00:00:00.000Z",
    "1969-12-31T23:59:59.999Z": "1969-12-31T23:59:59.999Z",
    "0001-01-01T00:00:00Z": "0001-01-01T00:00:00.000Z",
    "0001-01-01T00:00:00-00:01": "0001-01-01T00:01:00.000Z",
    "9999-12-31T23:59:59.999Z": "9999-12-31T23:59:59.999Z",
    "2024-02-29T00:00:00Z": "2024-02-29T00:00:00.000Z",
}
NO_TIMES: Final = [
    "2026-01-02T03:04:60Z",
    "2016-12-31T23:59:61Z",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
    "9999-12-31T23:59:60Z",
    "2026-01-02 03:04:05Z",
    "2026-01-02T03:04:05",
    "2026-01-02T03:04:05+24:00",
    "2026-01-02T03:04:05+00:60",
    "2026-01-02T03:04:05+0100",
    "2026-01-02T03:04:05Z\n",
    " 2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05.Z",
    "2026-01-02T03:04:05,5Z",
    "2026-01-02T24:00:00Z",
    "2026-02-29T03:04:05Z",
    "2026-13-01T03:04:05Z",
    "2026-01-02T03:04Z",
    "2026-01-02",
    "20260102T030405Z",
    "12026-01-02T03:04:05Z",
    "2026-01-02T03:04:0٣Z",
    "",
    "now",
]


def test_a_time_is_taken_in_every_spelling_of_rfc_3339(node: Node) -> None:
    taken = added(node, *(line(at, at=at) for at in TIMES))
    assert {each["message"]: each["at"] for each in taken} == TIMES


@pytest.mark.parametrize("at", NO_TIMES)
def test_what_is_no_time_is_refused_where_it_stands(at: str, node: Node) -> None:
    assert refused(node, line("a line"), line("a line", at=at)) == ["events[1].at"]
    assert refused(node, step(RAFT, "running", at=at)) == ["events[0].at"]


def test_an_event_without_a_time_has_that_of_its_arrival(node: Node) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    (stored,) = added(node, line("now"))
    assert before <= datetime.fromisoformat(stored["at"]) <= datetime.now(UTC)


# The Idempotency-Key.


def test_a_key_is_1_to_64_visible_characters_of_ascii(node: Node) -> None:
    for number, key in enumerate(("x", "!", "~" * 64, "a,b;c=d", '"quoted"')):
        (once,) = added(node, line(f"under key {number}"), key=key)
        assert added(node, line(f"under key {number}"), key=key) == []
        assert once["message"] == f"under key {number}"
    before = last(node)
    body = json.dumps({"events": [line("never")]}).encode()
    bads: list[str | bytes] = ["", "x" * 65, "a b", "a\tb", b"caf\xe9", "é".encode()]
    for bad in bads:
        answer = send(node, body, {"Idempotency-Key": bad})
        assert answer.outcome == INVALID, bad
        assert [error["field"] for error in answer.json["errors"]] == ["Idempotency-Key"], bad
    twice = [*JSON.items(), ("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
    with node.connect() as own:
        assert node.server.send_join("POST", f"{node.path}/events", twice, body, over=own).outcome == INVALID
    assert last(node) == before


def test_a_key_stands_for_the_bytes_of_one_body(node: Node) -> None:
    assert len(added(node, line("one"), key="bytes")) == 1
    before = last(node)
    assert node.report(line("two"), key="bytes").outcome == (409, "IDEMPOTENCY_KEY_REUSED")
    spaced = json.dumps({"events": [line("one")]}, indent=1).encode()
    assert send(node, spaced, {"Idempotency-Key": "bytes"}).outcome == (409, "IDEMPOTENCY_KEY_REUSED")
    assert node.report(line("one"), key="Bytes").status == 204
    assert last(node) == before + 1


def test_the_last_16_keys_of_a_join_are_known(node: Node) -> None:
    keys = [f"one-of-{number}" for number in range(17)]
    for key in keys:
        assert len(added(node, line(key), key=key)) == 1
    for key in reversed(keys[1:]):
        assert added(node, line(key), key=key) == []
    assert len(added(node, line(keys[0]), key=keys[0])) == 1
    assert added(node, line(keys[2]), key=keys[2]) == []


def test_a_key_is_a_join_s_own(node: Node, founder: Gatehouse) -> None:
    assert len(added(node, line("mine"), key="shared")) == 1
    other = Node.registered(founder)
    assert other.report(line("yours"), key="shared").outcome == (409, "JOIN_NOT_IN_TURN")
    other.leave()


def test_a_batch_that_comes_many_times_at_once_under_its_key_is_recorded_once(node: Node) -> None:
    before = last(node)
    target, key = f"{node.path}/events", {"Idempotency-Key": "at-once"}
    bodies = [json.dumps({"events": [line(text)]}).encode() for text in ("one", "other")]
    requests = [wire.message("POST", target, JSON | key, body) for body in bodies * 10]
    answers = wire.send_at_once(node.server.join_port, requests, node.wrap)
    for answer in answers:
        check("POST", target, answer, "join")
    assert Counter(answer.outcome for answer in answers) == {(204, ""): 10, (409, "IDEMPOTENCY_KEY_REUSED"): 10}
    assert last(node) == before + 1


def test_a_refused_batch_leaves_its_key_free(node: Node) -> None:
    assert node.report(line("x"), step("unknown", "running"), key="free").outcome == INVALID
    assert len(added(node, line("good"), key="free")) == 1


# Bodies.


def test_a_body_is_as_long_as_4_mib_and_no_longer(node: Node) -> None:
    body = json.dumps({"events": [line("long")]}).encode()
    before = last(node)
    assert send(node, body.ljust(LIMIT + 1)).outcome == (413, "BODY_TOO_LARGE")
    assert last(node) == before
    assert send(node, body.ljust(LIMIT)).status == 204
    assert last(node) == before + 1


def test_json_is_at_most_64_levels_deep_and_has_no_member_twice(node: Node) -> None:
    def nested(levels: int) -> bytes:
        # The body, the list and the event are three levels more.
        return b'{"events":[{"type":"log","message":"deep","more":' + b"[" * levels + b"]" * levels + b"}]}"

    assert send(node, nested(61)).status == 204
    before = last(node)
    for body in (
        nested(62),
        nested(100_000),
        b'{"events":[],"events":[]}',
        b'{"events":[{"type":"log","message":"a","message":"a"}]}',
        b'{"events":[{"type":"log","message":"a","mess\\u0061ge":"a"}]}',
        b'{"events":[NaN]}',
        b'{"events":[]}}',
        b'{"events":[],}',
        b'{"events":[',
        b"",
        b" ",
        b"\xef\xbb\xbf" + b'{"events":[]}',
        '{"events":[]}'.encode("utf-16"),
    ):
        answer = send(node, body)
        assert answer.outcome == INVALID, body[:80]
        assert answer.json["errors"], body[:80]
    assert last(node) == before
