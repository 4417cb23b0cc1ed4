"""Faults that were reported of servers like this one, by their numbers, as far as they concern the join."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.gatehouse import Gatehouse
from tests.support.nodes import JSON, Node, assert_a_reader_misses_nothing, line, step
from tests.support.wire import Answer, message

INVALID: Final = (400, "INVALID_INPUT")
GOOD: Final = json.dumps({"events": [line("a line of a batch")]}).encode()
BAD: Final = json.dumps({"events": [{"type": "log"}]}).encode()


@pytest.fixture(scope="module")
def node(founder: Gatehouse) -> Iterator[Node]:
    """A node whose turn it is; the tests of this module add to its log."""
    node = Node.in_turn(founder)
    yield node
    node.leave()


def send(node: Node, body: bytes, media_type: str = "application/json", **how: Any) -> Answer:
    return node.send("POST", f"{node.path}/events", {"Content-Type": media_type}, body, **how)


def count(node: Node) -> int:
    """How many lines were ever stored."""
    log = node.server.join_log(node.join_id)
    return len(log["lines"]) + int(log["dropped"])


# Case 1: a body that comes in chunks.


def test_a_batch_in_chunks_is_the_batch_that_they_make(node: Node) -> None:
    before = count(node)
    key = GOOD.index(b"message") + 3
    for chunks in ([GOOD], [GOOD[:key], GOOD[key:]], [bytes([one]) for one in GOOD]):
        assert send(node, b"", chunks=chunks).status == 204
    assert send(node, b"", chunks=[BAD[:9], BAD[9:]]).outcome == INVALID
    assert count(node) == before + 3


def test_a_batch_may_come_in_chunks_that_arrive_one_by_one(node: Node) -> None:
    key = GOOD.index(b"message") + 3
    request = message("POST", f"{node.path}/events", JSON, chunks=[GOOD[:key], GOOD[key:]])
    before = count(node)
    with node.connect() as wire:
        for end in range(0, len(request), 41):
            wire.write(request[end : end + 41])
        assert wire.read().status == 204
    assert count(node) == before + 1


def test_the_limit_of_a_batch_holds_for_its_chunks_together(node: Node) -> None:
    chunks = [GOOD, *[b" " * 65_536] * 63, b" " * (65_536 - len(GOOD))]
    before = count(node)
    assert send(node, b"", chunks=chunks).status == 204
    assert send(node, b"", chunks=[*chunks, b" "]).outcome == (413, "BODY_TOO_LARGE")
    assert count(node) == before + 1


# Case 2: the letter case of media types.


@pytest.mark.parametrize(
    "media_type",
    [
        "Application/JSON",
        "application/json;charset=UTF-8",
        "application/json ; charset=utf-8",
        'APPLICATION/json; a="text/plain"',
    ],
)
def test_a_media_type_is_compared_without_regard_to_case_and_parameters(media_type: str, node: Node) -> None:
    before = count(node)
    assert send(node, BAD, media_type).outcome == INVALID
    assert send(node, GOOD, media_type).status == 204
    assert count(node) == before + 1


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "text/plain; a=application/json",
        "text/plain, application/json",
        "application/json, text/plain",
        "application/jsonx",
        "application/problem+json",
        "json",
        "*/*",
        "",
    ],
)
def test_another_media_type_is_refused_whatever_its_parameters(media_type: str, node: Node) -> None:
    before = count(node)
    assert send(node, GOOD, media_type).outcome == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert count(node) == before


def test_an_encoded_batch_is_a_wrong_media_type(node: Node) -> None:
    encoded = node.send("POST", f"{node.path}/events", JSON | {"Content-Encoding": "gzip"}, GOOD)
    assert encoded.outcome == (415, "UNSUPPORTED_MEDIA_TYPE")


# Case 3: JSON that is not UTF-8.


@pytest.mark.parametrize("body", [b'{"k":"\xff"}', b'{"k":"\xc0\xaf"}', b'{"k":"\xe2\x82', GOOD + b"\xe2\x82"])
def test_a_batch_that_is_not_utf_8_is_refused_and_leaves_nothing(body: bytes, node: Node) -> None:
    before, key = count(node), {"Idempotency-Key": f"not-utf-8-{body.hex()[-20:]}"}
    answer = node.send("POST", f"{node.path}/events", JSON | key, body)
    assert answer.outcome == INVALID
    assert answer.json["errors"]
    assert count(node) == before
    assert node.send("POST", f"{node.path}/events", JSON | key, GOOD).status == 204
    founder = node.server
    for target in ("/v1/join/tokens", f"{node.path}/reject", f"{node.path}/approve"):
        assert founder.send("POST", target, JSON | founder.operator, body).outcome == INVALID


# Cases 7 and 8 are test_join_identity.py and, in test_join_events.py, the spellings of `at`.


# Case 12: numbers that become visible in another order than they were given in.


def test_a_reader_misses_no_line_of_batches_that_are_stored_at_once(node: Node) -> None:
    assert_a_reader_misses_nothing(node, batches=60)


# Case 14: the same event twice in one batch.


def test_events_have_no_ids_and_equal_ones_in_a_batch_are_two(node: Node) -> None:
    at, before = "2026-01-02T03:04:05Z", count(node)
    twice = [line("same", at=at), line("same", at=at)]
    running = [step("services", "running", at=at), step("services", "running", at=at)]
    for events in ([*twice, *running], [*running, *twice], twice):
        assert node.report(*events).status == 204
    log = node.server.join_log(node.join_id, f"?after={before}")["lines"]
    assert [(each["seq"], each["message"]) for each in log] == [(before + place, "same") for place in range(1, 7)]
    assert node.report(line("same", at=at, id="1"), line("another", at=at, id="1")).status == 204
    assert count(node) == before + 8
