from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from handlers.gateway.bodies import LISTED_FINDINGS
from tests.handlers.join.house import RAFT, House, Node, errors, outcome
from tests.support.nodes import line, lines, step

pytestmark = pytest.mark.anyio

NO_STEP = "is not a step of the join's plan"
NO_TIME = "is not a time of the years 1 to 9999"


@pytest.fixture
async def node(house: House) -> Node:
    """A node in its turn."""
    return await Node.joining(house)


async def steps_of(node: Node) -> dict[str, dict[str, Any]]:
    return {each["step"]: each for each in (await node.house.registration(node.join_id))["steps"]}


async def test_steps_and_lines_are_recorded_as_they_are_told(node: Node, house: House) -> None:
    answer = await node.report(
        step("services", "running", message="starting \0", at="2026-04-15T14:00:00.5+02:00"),
        line("one", at="2026-04-15T12:00:00Z"),
        line("", step="services", at="2026-04-15t12:00:01.9999z", status="done", unknown=[1]),
        step("services", "done", at="2026-04-15T23:59:60Z"),
        line("\0\N{SNOWMAN}", at="0001-01-01T00:00:00Z"),
    )
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await steps_of(node))["services"] == {
        "step": "services",
        "status": "done",
        "message": None,
        "startedAt": "2026-04-15T12:00:00.500Z",
        "endedAt": "2026-04-16T00:00:00.000Z",
    }
    assert await house.log(node.join_id) == {
        "lines": [
            {"seq": 1, "at": "2026-04-15T12:00:00.000Z", "step": None, "message": "one"},
            {"seq": 2, "at": "2026-04-15T12:00:01.999Z", "step": "services", "message": ""},
            {"seq": 3, "at": "0001-01-01T00:00:00.000Z", "step": None, "message": "\0\N{SNOWMAN}"},
        ],
        "dropped": 0,
    }


async def test_what_has_no_time_happened_when_it_arrived(node: Node, house: House) -> None:
    assert (await node.report(step("services", "running"), line("one"))).status_code == 204
    times = [(await house.log(node.join_id))["lines"][0]["at"], (await steps_of(node))["services"]["startedAt"]]
    for each in times:
        assert abs(datetime.fromisoformat(each) - datetime.now().astimezone()) < timedelta(seconds=30)


async def test_a_report_without_events_is_one(node: Node) -> None:
    assert (await node.report()).status_code == 204


async def test_two_equal_events_are_two(node: Node, house: House) -> None:
    assert (await node.report(line("same"), line("same"))).status_code == 204
    assert [each["seq"] for each in (await house.log(node.join_id))["lines"]] == [1, 2]


async def test_lines_are_read_on_from_one_that_the_reader_has(node: Node, house: House) -> None:
    assert (await node.report(*lines(1, 5))).status_code == 204
    for query, expected in (
        ("", [1, 2, 3, 4, 5]),
        ("?after=3", [4, 5]),
        ("?after=1&limit=2", [2, 3]),
        ("?after=9", []),
    ):
        assert [each["seq"] for each in (await house.log(node.join_id, query))["lines"]] == expected


async def test_a_log_that_is_not_asked_for_as_documented_is_refused(node: Node, house: House) -> None:
    for query in ("after=-1", "after=x", "limit=0", "limit=2001", "after=9007199254740992"):
        assert [field for field, _ in errors(await house.operate("GET", f"{node.path}/log?{query}"))], query


async def test_what_the_document_cannot_say_is_refused_at_its_place_and_nothing_is_kept(
    node: Node, house: House
) -> None:
    cases: list[tuple[list[dict[str, Any]], list[tuple[str, str]]]] = [
        ([step("other", "running")], [("events[0].step", NO_STEP)]),
        ([line("ok"), line("x", step="other")], [("events[1].step", NO_STEP)]),
        ([line("ok"), line("x", at="0000-01-01T00:00:00Z")], [("events[1].at", NO_TIME)]),
        ([step("services", "done", at="9999-12-31T23:59:60Z")], [("events[0].at", NO_TIME)]),
        ([line("x", at="-026-04-15T12:00:00Z")], [("events[0].at", NO_TIME)]),
        (
            [line("ok"), step("", "done", at="0001-01-01T00:00:00+00:01")],
            [("events[1].step", NO_STEP), ("events[1].at", NO_TIME)],
        ),
    ]
    for events, expected in cases:
        assert errors(await node.report(*events)) == expected
    assert (await house.log(node.join_id))["lines"] == []
    assert (await steps_of(node))["services"]["status"] == "waiting"


async def test_an_event_that_is_not_as_documented_is_refused_at_its_place(node: Node) -> None:
    for event, field in (
        ({"type": "step", "step": "services"}, "events[0].status"),
        ({"type": "step", "status": "done"}, "events[0].step"),
        ({"type": "step", "step": "services", "status": "waiting"}, "events[0].status"),
        ({"type": "log"}, "events[0].message"),
        ({"type": "log", "message": None}, "events[0].message"),
        ({"type": "log", "message": "x", "at": "yesterday"}, "events[0].at"),
        ({"type": "other"}, "events[0].type"),
        ({}, "events[0].type"),
    ):
        assert field in [each for each, _ in errors(await node.report(event))], event


async def test_500_events_are_taken_and_501_are_not(node: Node, house: House) -> None:
    assert [field for field, _ in errors(await node.report(*lines(1, 501)))] == ["events"]
    assert (await node.report(*lines(1, 500))).status_code == 204
    assert (await house.log(node.join_id))["lines"][-1]["seq"] == 500


async def test_of_many_faults_as_many_are_listed_as_the_gateway_lists(node: Node) -> None:
    found = errors(await node.report(*(line("x", step="other") for _ in range(500))))
    assert found == [(f"events[{number}].step", NO_STEP) for number in range(LISTED_FINDINGS)]


async def test_a_report_under_the_same_key_is_recorded_once(node: Node, house: House) -> None:
    for _ in range(2):
        assert (await node.report(line("one"), idempotency_key="k-1")).status_code == 204
    other = await node.report(line("other"), idempotency_key="k-1")
    assert outcome(other) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert (await node.report(line("one"))).status_code == 204
    assert [each["message"] for each in (await house.log(node.join_id))["lines"]] == ["one", "one"]


async def test_a_key_has_1_to_64_visible_characters(node: Node) -> None:
    for key in ("", "x" * 65, "a b", "\t"):
        assert [field for field, _ in errors(await node.report(idempotency_key=key))] == ["Idempotency-Key"], key
    assert (await node.report(idempotency_key="!" * 64)).status_code == 204


async def test_a_step_cannot_go_back_and_nothing_of_such_a_report_is_kept(node: Node, house: House) -> None:
    assert (await node.report(step("services", "running"), step("services", "done"))).status_code == 204
    assert (await node.report(step("services", "done"))).status_code == 204
    refused = await node.report(line("one"), step("services", "running"))
    assert outcome(refused) == (409, "JOIN_STEP_ORDER")
    assert (await house.log(node.join_id))["lines"] == []


async def test_before_its_turn_a_join_takes_no_report(node: Node, house: House) -> None:
    waiting, pending = await Node.registered(house, "node-2"), await Node.registered(house, "node-3")
    assert (await house.approve(waiting.join_id)).json()["position"] == 1
    for early, standing in (
        (waiting, {"state": "approved", "position": 1}),
        (pending, {"state": "pending", "position": None}),
    ):
        refused = await early.report(line("early"))
        assert outcome(refused) == (409, "JOIN_NOT_IN_TURN")
        assert refused.json()["details"] == standing
        assert (await house.log(early.join_id))["lines"] == []
    assert node.join_id != waiting.join_id


async def test_a_failed_step_ends_the_join_and_what_comes_later_is_refused(node: Node, house: House) -> None:
    assert (await node.report(step("services", "failed", message="no disk"))).status_code == 204
    ended = await house.registration(node.join_id)
    assert (ended["state"], ended["failure"]) == ("failed", {"step": "services", "reason": "no disk"})
    refused = await node.report(line("late"))
    assert outcome(refused) == (409, "JOIN_ENDED")
    assert refused.json()["details"] == {"state": "failed", "position": None}
    assert (await house.log(node.join_id))["lines"] == []


async def test_the_keeper_is_woken_where_a_report_leaves_it_something_to_do(node: Node, house: House) -> None:
    before = house.turns.woken
    assert (await node.report(line("one"), step("services", "running"))).status_code == 204
    assert house.turns.woken == before
    assert (await node.report(step(RAFT, "running"))).status_code == 204
    assert house.turns.woken == before + 1
    assert (await house.registration(node.join_id))["rafts"][0]["state"] == "adding"
    assert (await node.report(step("services", "failed"))).status_code == 204
    assert house.turns.woken == before + 2
