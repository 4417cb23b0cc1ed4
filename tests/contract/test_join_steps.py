from __future__ import annotations

from typing import Any, Final

from tests.support.nodes import PLAN, RAFT, Node, line, lines, step

STEP_ORDER: Final = (409, "JOIN_STEP_ORDER")


def log(node: Node) -> list[dict[str, Any]]:
    return list(node.server.join_log(node.join_id)["lines"])


def services(node: Node) -> Any:
    return node.server.registration(node.join_id)["steps"][PLAN.index("services")]


def statuses(node: Node) -> dict[str, str]:
    return {each["step"]: each["status"] for each in node.server.registration(node.join_id)["steps"]}


def test_the_steps_of_a_batch_are_taken_one_after_the_other(in_turn: Node) -> None:
    at = "2026-01-02T03:04:05Z"
    later = "2026-01-02T03:04:06.5Z"
    first = step("services", "running", message="begins", at=at)
    assert in_turn.report(first, step("services", "done", message="done", at=later)).status == 204
    assert in_turn.report(step("services", "done", at="2026-01-02T04:00:00Z")).status == 204
    shown = services(in_turn)
    assert shown["status"] == "done"
    assert (shown["startedAt"], shown["endedAt"]) == ("2026-01-02T03:04:05.000Z", "2026-01-02T03:04:06.500Z")
    assert log(in_turn) == []


def test_done_implies_running_and_the_plan_s_order_is_not_enforced(in_turn: Node) -> None:
    assert in_turn.report(step("services", "done", at="2026-01-02T03:04:05Z")).status == 204
    shown = services(in_turn)
    assert shown["startedAt"] == shown["endedAt"] == "2026-01-02T03:04:05.000Z"
    assert statuses(in_turn) == {RAFT: "waiting", "services": "done", "complete": "waiting"}


def test_a_batch_with_a_step_out_of_order_is_recorded_in_no_part(in_turn: Node) -> None:
    assert in_turn.report(step("services", "running"), line("before")).status == 204
    before = in_turn.server.registration(in_turn.join_id), log(in_turn)
    backwards = [line("never"), step("services", "done"), step("services", "running"), line("never")]
    assert in_turn.report(*backwards).outcome == STEP_ORDER
    assert in_turn.report(line("never"), step("unknown", "running")).outcome == (400, "INVALID_INPUT")
    assert in_turn.report(step("services", "done"), step("services", "failed")).outcome == STEP_ORDER
    assert (in_turn.server.registration(in_turn.join_id), log(in_turn)) == before


def test_a_failed_step_fails_the_join_at_that_step(in_turn: Node) -> None:
    events = [step(RAFT, "running"), line("why"), step("services", "failed", message="No disk.")]
    assert in_turn.report(*events).status == 204
    registration = in_turn.server.registration(in_turn.join_id)
    assert registration["state"] == "failed"
    assert registration["failure"]["step"] == "services"
    assert registration["endedAt"]
    assert [each["message"] for each in log(in_turn)] == ["why"]
    in_turn.out()


def test_of_ten_thousand_lines_the_newest_2_000_are_kept_in_their_order(in_turn: Node) -> None:
    with in_turn.connect() as wire:
        for first in range(0, 10_000, 500):
            assert in_turn.report(*lines(first, 500), over=wire).status == 204
    stored = in_turn.server.join_log(in_turn.join_id)
    assert stored["dropped"] == 8_000
    assert [each["seq"] for each in stored["lines"]] == list(range(8_001, 10_001))
    assert [each["message"] for each in stored["lines"]] == [f"line {number}" for number in range(8_000, 10_000)]
    assert in_turn.report(line("one more")).status == 204
    stored = in_turn.server.join_log(in_turn.join_id)
    assert stored["dropped"] == 8_001
    assert (stored["lines"][0]["seq"], stored["lines"][-1]["seq"]) == (8_002, 10_001)
