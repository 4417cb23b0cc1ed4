from __future__ import annotations

from typing import Any

import pytest

from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.execution.course import (
    LOOK_AGAIN_MILLISECONDS,
    Decision,
    Dispatch,
    Settle,
    activation,
    decide,
    failed,
)
from handlers.coordinator.workflows.workflow import Workflow
from storage.execution.records import (
    MOST_TRIES,
    Advance,
    AttemptResult,
    Doubt,
    End,
    Move,
    Position,
    Recovery,
    StepResult,
    Wait,
)
from tests.handlers.coordinator.execution.positions import (
    ADMITTED,
    DEADLINE,
    NOW,
    RECOVERIES,
    at,
    command_of,
    flow,
    reading,
    registry,
    sent,
)

ASKED = StepResult(status=202, body='{"a":1}', ended_at=ADMITTED + 5_000)


def decided(
    position: Position,
    workflow: Workflow | None = None,
    connection: Connection | None = None,
    *,
    bound: bool = True,
    now: int = NOW,
) -> Decision:
    return decide(workflow or flow(), position, {"registry": connection or registry()}, bound, now)


def moved(position: Position, workflow: Workflow | None = None, **options: Any) -> Move:
    decision = decided(position, workflow, **options)
    assert isinstance(decision, Settle)
    return decision.move


def asked(step: str, **members: Any) -> Position:
    return at(step, **{"results": {"ask": ASKED}, **members})


def tried(recovery: Recovery, *results: AttemptResult, now: int = NOW, **members: Any) -> Decision:
    connection = registry(recovery)
    return decided(sent(flow(), connection, *results, **members), flow(), connection, now=now)


def test_over_mappings_stand_the_input_the_run_and_what_steps_left() -> None:
    position = at("done", results={"ask": ASKED, "pause": StepResult(None, None, ADMITTED + 6_001)})
    variables = activation(flow(), position)
    assert variables | {"steps": {name: variables["steps"][name] for name in ("ask", "pause")}} == {
        "input": {"caseId": "c-1"},
        "run": {
            "id": position.run_id,
            "admittedAt": "2026-01-01T00:00:00.000Z",
            "deadlineAt": "2026-01-01T01:00:00.000Z",
        },
        "steps": {
            "ask": {"status": 202, "body": {"a": 1}, "endedAt": "2026-01-01T00:00:05.000Z"},
            "pause": {"endedAt": "2026-01-01T00:00:06.001Z"},
        },
    }


def test_of_what_steps_left_nothing_is_read_that_no_mapping_asks_for() -> None:
    unreadable = StepResult(200, "no JSON", ADMITTED)
    position = at("pause", results={"ask": unreadable})
    steps = activation(flow(), position)["steps"]
    assert ("ask" in steps, "pause" in steps) == (True, False)
    assert isinstance(moved(position, flow(steps__pause__until="run.admittedAt")), Advance)
    with pytest.raises(KeyError):
        steps["pause"]


def test_a_call_without_a_body_in_its_answer_has_null() -> None:
    position = asked("decide", results={"ask": StepResult(204, None, ADMITTED)})
    assert activation(flow(), position)["steps"]["ask"]["body"] is None


@pytest.mark.parametrize(
    ("until", "due"),
    [
        ("timestamp(run.admittedAt) + duration('2m')", ADMITTED + 120_000),
        ("'2026-01-01T01:02:00.5+01:00'", ADMITTED + 120_500),
        ("'2026-01-01t00:02:00.0019z'", ADMITTED + 120_001),
        ("'9999-12-31T23:59:59Z'", DEADLINE),
    ],
)
def test_a_wait_is_due_at_its_time_or_at_the_deadline(until: str, due: int) -> None:
    workflow = flow(steps__pause__until=until)
    assert decided(asked("pause"), workflow) == Settle("wait-until", Wait(due))


@pytest.mark.parametrize("until", ["run.admittedAt", "'0001-01-01T00:00:00Z'", "'2026-01-01T00:01:00Z'"])
def test_a_wait_for_now_or_for_the_past_is_over(until: str) -> None:
    assert moved(asked("pause"), flow(steps__pause__until=until)) == Advance("done", StepResult(None, None, NOW))


@pytest.mark.parametrize(
    "until", ["'tomorrow'", "1767225600", "true", "input", "'2026-01-01'", "'2026-01-01T00:00:00'"]
)
def test_a_wait_for_no_time_fails(until: str) -> None:
    assert moved(asked("pause"), flow(steps__pause__until=until)) == failed("wait.invalid")


def test_a_choice_takes_the_first_case_that_is_true() -> None:
    assert decided(asked("decide")) == Settle("choose", Advance("pause", None))
    other = asked("decide", results={"ask": StepResult(200, None, ADMITTED)})
    assert moved(other) == Advance("done", None)
    both = [{"when": "true", "next": "done"}, {"when": "steps.ask.body.nothing", "next": "pause"}]
    assert moved(asked("decide"), flow(steps__decide__cases=both, steps__decide__else="pause")) == Advance("done", None)


@pytest.mark.parametrize("when", ["'true'", "1", "input.nothing", "1 / 0 == 1", "steps.ask.body"])
def test_a_case_that_is_neither_true_nor_false_fails(when: str) -> None:
    assert moved(asked("decide"), flow(steps__decide__cases=[{"when": when, "next": "pause"}])) == failed(
        "mapping.failed"
    )


def test_a_run_ends_with_an_outcome_and_its_output() -> None:
    position = asked("done", results={"ask": StepResult(200, '{"b":1.5,"a":[]}', ADMITTED)})
    assert decided(position) == Settle("finish", End("completed", "decided", '{"a":[],"b":1.5}', None))


@pytest.mark.parametrize("output", ["'text'", "null", ["input.caseId"]])
def test_an_output_that_breaks_its_schema_fails(output: Any) -> None:
    assert moved(asked("done"), flow(steps__done__output=output)) == failed("output.invalid")


def test_an_output_has_a_bound() -> None:
    half = StepResult(200, f'"{"x" * 70_000}"', ADMITTED)
    workflow = flow(steps__done__output={"a": "steps.ask.body", "b": "steps.ask.body"})
    assert moved(asked("done", results={"ask": half}), workflow) == failed("output.invalid")


@pytest.mark.parametrize(
    ("step", "changes"),
    [
        ("ask", {"steps__ask__body": "input.nothing"}),
        ("ask", {"steps__ask__query": {"a": "1 / 0"}}),
        ("pause", {"steps__pause__until": "input.nothing"}),
        ("done", {"steps__done__output": "steps.ask.body.nothing"}),
    ],
)
def test_a_mapping_that_gives_nothing_fails_the_run(step: str, changes: dict[str, Any]) -> None:
    assert moved(asked(step), flow(**changes)) == failed("mapping.failed")


def test_a_call_that_its_connection_does_not_permit_is_not_made() -> None:
    others: list[dict[str, Any]] = [{"methods": ["GET"]}, {"paths": ["/cases"]}, {"methods": [], "paths": []}]
    for permitted in others:
        decision = decided(at(), connection=registry(**permitted))
        assert decision == Settle("call", Wait(DEADLINE, blocked=True))


def test_a_request_that_cannot_be_sent_fails_the_run() -> None:
    assert moved(at(input='{"caseId":".."}')) == failed("request.invalid")


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_a_call_is_made_under_the_run_and_the_step(recovery: Recovery) -> None:
    decision = decided(at(), connection=registry(recovery))
    assert isinstance(decision, Dispatch)
    assert decision.kind == "send"
    assert decision.command.key == f"{at().run_id}.ask"
    assert decision.command.recovery == recovery


def test_a_command_that_is_kept_is_sent_as_it_is() -> None:
    connection = registry("same-command")
    kept = sent(flow(), connection, "retryable")
    moved_on = flow(steps__ask__body={"other": True})
    assert decided(kept, moved_on, connection) == Dispatch("send", command_of(flow(), connection))


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("result", ["unanswered", "interrupted", "failed-there", "too-large", "unreadable"])
def test_a_command_in_doubt_recovers_as_its_connection_says(recovery: Recovery, result: AttemptResult) -> None:
    command = command_of(flow(), registry(recovery))
    expected: dict[str, Decision] = {
        "same-command": Dispatch("send", command),
        "same-command-and-receipt": Dispatch("receipt", command),
        "hold-after-dispatch": Settle("call", Doubt(None)),
    }
    assert tried(recovery, result) == expected[recovery]


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("result", ["not-connected", "retryable"])
def test_a_command_of_which_nothing_came_is_sent_again(recovery: Recovery, result: AttemptResult) -> None:
    held = recovery == "hold-after-dispatch" and result == "retryable"
    again: Decision = Dispatch("send", command_of(flow(), registry(recovery)))
    assert tried(recovery, result) == (Settle("call", Doubt(None)) if held else again)


@pytest.mark.parametrize(
    ("results", "kind"),
    [
        (["unanswered", "receipt-missing"], "send"),
        (["unanswered", "receipt-unavailable"], "receipt"),
        (["unanswered", "interrupted"], "receipt"),
        (["unanswered", "receipt-expired"], None),
    ],
)
def test_what_its_receipt_said_decides_how_a_command_goes_on(results: list[AttemptResult], kind: str | None) -> None:
    decision = tried("same-command-and-receipt", *results)
    assert decision == Settle("call", Doubt(None)) if kind is None else getattr(decision, "kind", None) == kind


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("result", ["unanswered", "retryable", "receipt-expired"])
def test_a_person_has_the_same_command_sent_again(recovery: Recovery, result: AttemptResult) -> None:
    again = Dispatch("send", command_of(flow(), registry(recovery)))
    assert tried(recovery, "unanswered", result, repeat_accepted=True) == again
    assert tried(recovery, "unanswered", result, repeat_accepted=True, now=DEADLINE + 1) == again


@pytest.mark.parametrize("result", ["interrupted", "unanswered", "retryable", "failed-there", "not-connected"])
def test_a_read_is_read_again(result: AttemptResult) -> None:
    for recovery in RECOVERIES:
        connection = registry(recovery)
        position = sent(reading(), connection, result)
        assert decided(position, reading(), connection) == Dispatch("send", command_of(reading(), connection))


@pytest.mark.parametrize("step", ["ask", "decide", "pause", "done"])
def test_at_the_deadline_a_run_that_sent_nothing_fails(step: str) -> None:
    assert moved(asked(step), now=DEADLINE) == failed("deadline.passed")
    assert moved(asked(step, repeat_accepted=True), now=DEADLINE) == failed("deadline.passed")
    assert decided(asked(step), now=DEADLINE - 1) != decided(asked(step), now=DEADLINE)


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_at_the_deadline_a_command_that_nobody_has_fails_the_run(recovery: Recovery) -> None:
    over = Settle("call", failed("deadline.passed"))
    assert tried(recovery, "not-connected", now=DEADLINE) == over
    assert tried("same-command", "retryable", now=DEADLINE) == over
    assert tried("same-command-and-receipt", "unanswered", "receipt-missing", now=DEADLINE) == over
    position = sent(reading(), registry(recovery), "unanswered")
    assert decided(position, reading(), registry(recovery), now=DEADLINE) == over


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_at_the_deadline_a_command_in_doubt_is_left_to_a_person(recovery: Recovery) -> None:
    assert tried(recovery, "unanswered", now=DEADLINE) == Settle("call", Doubt(None))


@pytest.mark.parametrize("step", ["ask", "decide", "pause", "done"])
def test_a_step_that_brought_the_executor_down_too_often_is_left_to_a_person(step: str) -> None:
    assert moved(asked(step, tries=MOST_TRIES + 1)) == Doubt(None)
    assert decided(asked(step, tries=MOST_TRIES)) == decided(asked(step))


def test_a_call_over_connections_that_are_configured_otherwise_waits() -> None:
    blocked = Settle("call", Wait(DEADLINE, blocked=True))
    assert decided(at(), bound=False) == blocked
    assert decide(flow(), at(), {}, True, NOW) == blocked
    assert tried_unbound("not-connected") == Wait(DEADLINE, blocked=True)
    assert decided(asked("decide"), bound=False) == decided(asked("decide"))


def tried_unbound(*results: AttemptResult, now: int = NOW) -> Move:
    connection = registry("same-command")
    return moved(sent(flow(), connection, *results), flow(), connection=connection, bound=False, now=now)


def test_a_command_in_doubt_stays_so_while_connections_are_configured_otherwise() -> None:
    assert tried_unbound("unanswered") == Doubt(NOW + LOOK_AGAIN_MILLISECONDS)
    assert tried_unbound("unanswered", now=DEADLINE - 1) == Doubt(DEADLINE)
    assert tried_unbound("unanswered", now=DEADLINE) == Doubt(None)


def test_a_run_whose_definition_cannot_be_read_waits_until_its_deadline() -> None:
    assert decide(None, at("anything"), {}, False, NOW) == Settle(None, Wait(DEADLINE, blocked=True))
    assert decide(None, at("anything"), {}, False, DEADLINE) == Settle(None, failed("deadline.passed"))
    doubtful = sent(flow(), registry("same-command"), "unanswered")
    assert decide(None, doubtful, {}, False, NOW) == Settle(None, Doubt(NOW + LOOK_AGAIN_MILLISECONDS))
    assert decide(None, doubtful, {}, False, DEADLINE) == Settle(None, Doubt(None))


@pytest.mark.parametrize("results", [[], ["not-connected"]])
def test_after_a_restore_a_person_has_to_agree_to_what_no_key_protects(results: list[AttemptResult]) -> None:
    for recovery in RECOVERIES:
        connection = registry(recovery)
        command = command_of(flow(), connection) if results else None
        restored = sent(flow(), connection, *results, restore_review_required=True)
        if command is None:
            restored = at(restore_review_required=True)
        decision = decided(restored, connection=connection)
        assert isinstance(decision, Settle if recovery == "hold-after-dispatch" else Dispatch)
        if isinstance(decision, Settle):
            assert decision.move == Doubt(None)


def test_after_a_restore_reads_and_other_steps_go_on() -> None:
    assert isinstance(decided(at(restore_review_required=True), reading()), Dispatch)
    for step in ("decide", "pause", "done"):
        assert decided(asked(step, restore_review_required=True)) == decided(asked(step))


def test_a_run_that_a_person_let_go_on_after_a_restore_is_sent() -> None:
    assert isinstance(decided(at(repeat_accepted=True)), Dispatch)
