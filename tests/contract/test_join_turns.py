from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import pytest

from tests.support import wire
from tests.support.gatehouse import Gatehouse, NewServer, wait_for
from tests.support.nodes import PLAN, RAFT, REGISTRATIONS, Node, line, step
from tests.support.wire import Answer

NOT_IN_TURN: Final = (409, "JOIN_NOT_IN_TURN")
ENDED: Final = (409, "JOIN_ENDED")
CONFLICT: Final = (409, "JOIN_STATE_CONFLICT")
BATCH: Final = [step("services", "running", message="begins"), line("a line")]


@pytest.fixture
def three(founder: Gatehouse) -> Iterator[list[Node]]:
    """Three nodes that have registered."""
    nodes = [Node.registered(founder) for _ in range(3)]
    yield nodes
    for node in reversed(nodes):
        node.leave()


def standing(node: Node) -> tuple[str, int | None]:
    registration = node.server.registration(node.join_id)
    return registration["state"], registration["position"]


def joined(founder: Gatehouse) -> Node:
    node = Node.in_turn(founder)
    node.finish()
    return node


def failed(founder: Gatehouse) -> Node:
    node = Node.in_turn(founder)
    node.fail()
    return node


def rejected(founder: Gatehouse) -> Node:
    node = Node.registered(founder)
    assert founder.reject(node.join_id).status == 200
    return node


def refuse(node: Node, outcome: tuple[int, str]) -> None:
    """Fail unless a report is refused with where the join stands, and leaves nothing."""
    before = node.server.registration(node.join_id), node.server.join_log(node.join_id)
    for events in (BATCH, []):
        answer = node.report(*events)
        assert answer.outcome == outcome
        assert answer.json["details"] == {"state": before[0]["state"], "position": before[0]["position"]}
    assert (node.server.registration(node.join_id), node.server.join_log(node.join_id)) == before


def test_nothing_is_recorded_before_the_turn(three: list[Node]) -> None:
    first, second, third = three
    refuse(first, NOT_IN_TURN)
    first.approved()
    second.approved()
    assert [standing(node) for node in three] == [("joining", 0), ("approved", 1), ("pending", None)]
    refuse(second, NOT_IN_TURN)
    refuse(third, NOT_IN_TURN)
    assert first.report(*BATCH).status == 204


@pytest.mark.parametrize("end", [joined, failed, rejected])
def test_nothing_is_recorded_after_the_end(end: Callable[[Gatehouse], Node], founder: Gatehouse) -> None:
    node = end(founder)
    assert standing(node) == (end.__name__, None)
    refuse(node, ENDED)
    assert node.registration().json == founder.registration(node.join_id)


def test_joins_come_one_after_the_other_in_the_order_of_their_approvals_whatever_order_they_report_in(
    three: list[Node], founder: Gatehouse
) -> None:
    second, third, first = three
    for node in (first, second, third):
        node.approved()
    assert [standing(node) for node in (first, second, third)] == [("joining", 0), ("approved", 1), ("approved", 2)]
    for early in (third, second):
        refuse(early, NOT_IN_TURN)
    first.finish()
    wait_for(lambda: standing(second) == ("joining", 0))
    assert standing(third) == ("approved", 1)
    refuse(third, NOT_IN_TURN)
    refuse(first, ENDED)
    assert second.report(step(RAFT, "running")).status == 204
    second.fail()
    wait_for(lambda: standing(third) == ("joining", 0))
    third.finish()
    turns = [founder.registration(node.join_id) for node in (first, second, third)]
    assert [turn["state"] for turn in turns] == ["joined", "failed", "joined"]
    for earlier, later in pairwise(turns):
        assert earlier["endedAt"] <= later["turnStartedAt"]


def test_of_many_approvals_at_once_one_has_the_turn_and_each_other_a_place(founder: Gatehouse) -> None:
    nodes = [Node.registered(founder) for _ in range(8)]
    # Each is approved twice.
    requests = [wire.message("POST", f"{node.path}/approve", founder.operator) for node in nodes * 2]
    assert {answer.status for answer in wire.send_at_once(founder.port, requests)} == {200}
    assert sorted(map(standing, nodes)) == [*(("approved", place) for place in range(1, 8)), ("joining", 0)]
    for node in sorted(nodes, key=standing):
        node.leave()


def test_a_node_becomes_a_learner_and_in_the_end_a_voter(in_turn: Node, founder: Gatehouse) -> None:
    def raft() -> Any:
        (own,) = founder.registration(in_turn.join_id)["rafts"]
        return own

    assert raft() == {
        "name": "control",
        "kind": "ledger",
        "state": "absent",
        "memberId": None,
        "peers": [],
        "error": None,
    }
    assert in_turn.report(step(RAFT, "running")).status == 204
    wait_for(lambda: raft()["state"] == "learner")
    name = in_turn.request()["name"]
    address = in_turn.request()["address"]
    assert raft()["memberId"]
    assert {"name": name, "peerUrl": f"https://{address}:2380"} in raft()["peers"]
    assert in_turn.report(step(RAFT, "done"), step("services", "done")).status == 204
    assert raft()["state"] == "learner"
    assert in_turn.state == "joining"
    assert in_turn.report(step("complete", "running")).status == 204
    wait_for(lambda: raft()["state"] == "voter")
    assert in_turn.state == "joining"
    assert in_turn.report(step("complete", "done")).status == 204
    assert in_turn.state == "joined"


def test_a_node_is_reached_where_it_says_also_when_it_is_set_up_again(founder: Gatehouse) -> None:
    urls = ["http://10.0.0.9:2381", "https://[2001:db8::9]:2380"]
    for _ in range(2):
        node = Node.in_turn(founder, name="again", peerUrls=urls)
        node.finish()
        (raft,) = founder.registration(node.join_id)["rafts"]
        assert [peer["peerUrl"] for peer in raft["peers"] if peer["name"] == "again"] == urls
        assert [peer["peerUrl"] for peer in raft["peers"]].count(urls[0]) == 1


@pytest.fixture(scope="module")
def impatient(new_server: NewServer) -> Gatehouse:
    """A server whose turns end after a second without a report."""
    server = new_server()
    server.configure(join={"turnTimeoutSeconds": 1})
    server.start()
    return server


def test_any_report_renews_the_time_of_a_turn_which_ends_when_nothing_is_heard(impatient: Gatehouse) -> None:
    node, following = Node.in_turn(impatient), Node.registered(impatient).approved()
    began = time.monotonic()
    with node.connect() as own:

        def has_outlived_its_first_time() -> bool:
            assert node.report(over=own).status == 204
            return time.monotonic() - began > 1.5

        wait_for(has_outlived_its_first_time)
    assert node.report(step(RAFT, "running")).status == 204
    wait_for(lambda: node.state == "failed")
    failure = impatient.registration(node.join_id)["failure"]
    assert failure["step"] in {None, RAFT}
    assert failure["reason"]
    wait_for(lambda: following.state == "joining")
    assert impatient.registration(node.join_id)["rafts"][0]["state"] == "removed"
    refuse(node, ENDED)


def test_an_approval_is_the_same_again_in_every_state_that_it_leads_to(three: list[Node], founder: Gatehouse) -> None:
    first, second, _ = three
    for node in (first, second):
        node.approved()
        before = founder.registration(node.join_id)
        assert founder.approve(node.join_id).json == before
        assert founder.approve(node.join_id, role="storage", address="elsewhere.example").json == before
    first.finish()
    before = founder.registration(first.join_id)
    again = founder.approve(first.join_id)
    assert (again.status, again.json) == (200, before)


def test_an_approval_has_a_body_or_none(three: list[Node], founder: Gatehouse) -> None:
    first, second, third = three
    assert founder.approve(first.join_id).status == 200
    assert founder.approve(second.join_id, address="free.example").status == 200
    path = f"{REGISTRATIONS}/{third.join_id}/approve"
    assert founder.operate("POST", path, {}).status == 200


def test_an_approval_for_what_another_live_join_has_is_refused(founder: Gatehouse) -> None:
    there = Node.registered(founder, role="storage", address="there.example")
    node = Node.registered(founder, role="control", address="here.example")

    def refused(**value: str) -> list[str]:
        answer = founder.approve(node.join_id, **value)
        assert answer.outcome == (409, "JOIN_APPROVAL_REFUSED")
        return [error["field"] for error in answer.json["errors"]]

    assert refused(role="storage") == ["role"]
    assert refused(address="there.example") == ["address"]
    assert sorted(refused(role="storage", address="there.example")) == ["address", "role"]
    assert node.state == "pending"
    there.leave()
    assert founder.approve(node.join_id, role="storage", address="there.example").status == 200
    node.leave()


def test_a_name_is_taken_while_its_join_lives_and_its_refusal_spends_no_token(founder: Gatehouse) -> None:
    first = Node.registered(founder, name="rack-4.top")
    token, second = founder.mint()["token"], Node(founder)

    def refused() -> bool:
        answer = second.register(token, name="rack-4.top")
        return answer.outcome == (409, "JOIN_NAME_TAKEN")

    assert refused()
    first.approved()
    assert refused()
    first.leave()
    assert second.register(token, name="rack-4.top").status == 201
    second.leave()


def test_a_join_that_is_pending_or_approved_is_rejected(three: list[Node], founder: Gatehouse) -> None:
    first, second, third = three
    first.approved()
    second.approved()
    for node in (second, third):
        answer = founder.reject(node.join_id, "The wrong disks.")
        assert (answer.json["state"], answer.json["position"]) == ("rejected", None)
        assert answer.json["failure"] == {"step": None, "reason": "The wrong disks."}
        assert answer.json["endedAt"]
    assert standing(first) == ("joining", 0)


def test_a_reason_is_any_text_of_1_to_256_characters(pending: Node, founder: Gatehouse) -> None:
    for bad in ("", "x" * 257):
        assert founder.reject(pending.join_id, bad).outcome == (400, "INVALID_INPUT")
    reason = "\u0000 𝕊 \u001b[31m".ljust(256, "x")
    assert founder.reject(pending.join_id, reason).json["failure"] == {"step": None, "reason": reason}


def test_a_join_in_its_turn_is_aborted_by_its_rejection_and_taken_out(in_turn: Node, founder: Gatehouse) -> None:
    following = Node.registered(founder).approved()
    assert in_turn.report(step(RAFT, "running")).status == 204
    wait_for(lambda: founder.registration(in_turn.join_id)["rafts"][0]["state"] == "learner")
    answer = founder.reject(in_turn.join_id, "The wrong disks.")
    assert answer.json["state"] == "failed"
    assert answer.json["failure"]["reason"] == "The wrong disks."
    assert answer.json["rafts"][0]["state"] in {"removing", "removed"}
    wait_for(lambda: following.state == "joining")
    assert founder.registration(in_turn.join_id)["rafts"][0]["state"] == "removed"
    following.leave()


@pytest.mark.parametrize("end", [joined, failed, rejected])
def test_what_has_ended_is_neither_rejected_nor_approved(end: Callable[[Gatehouse], Node], founder: Gatehouse) -> None:
    node = end(founder)
    before = founder.registration(node.join_id)
    assert founder.reject(node.join_id).outcome == CONFLICT
    assert founder.approve(node.join_id).outcome == ((200, "") if end is joined else CONFLICT)
    assert founder.registration(node.join_id) == before


def test_registrations_are_listed_oldest_first_by_their_state(three: list[Node], founder: Gatehouse) -> None:
    three[1].approved()

    def listed(query: str) -> list[Any]:
        answer = founder.operate("GET", f"{REGISTRATIONS}{query}")
        assert answer.status == 200
        return list(answer.json["registrations"])

    every = listed("?limit=500")
    assert [each["joinId"] for each in every] == sorted(each["joinId"] for each in every)
    assert [each["joinId"] for each in every][-3:] == [node.join_id for node in three]
    assert listed("?limit=1") == every[:1]
    assert listed("?state=pending&limit=500") == [each for each in every if each["state"] == "pending"]
    assert listed("?state=joining") == [founder.registration(three[1].join_id)]
    for query in ("?limit=0", "?limit=501", "?limit=+1", "?limit=1_0", "?state=asleep", "?state=", "?limit=1&limit=1"):
        refused: Answer = founder.operate("GET", f"{REGISTRATIONS}{query}")
        assert refused.outcome == (400, "INVALID_INPUT"), query
        assert refused.json["errors"]


def test_the_plan_and_the_first_state_of_a_registration_are_as_documented(pending: Node, founder: Gatehouse) -> None:
    registration = founder.registration(pending.join_id)
    asked = pending.request()
    assert {name: registration[name] for name in ("name", "role", "address")} == {
        name: asked[name] for name in ("name", "role", "address")
    }
    assert registration["plan"] == list(PLAN)
    assert registration["steps"] == [
        {"step": name, "status": "waiting", "message": None, "startedAt": None, "endedAt": None} for name in PLAN
    ]
    absent = {"approvedAt", "turnStartedAt", "endedAt", "failure", "position"}
    assert {name for name, value in registration.items() if value is None} == absent
