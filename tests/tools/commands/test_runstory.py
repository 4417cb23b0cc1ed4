from __future__ import annotations

import json
from typing import Any

import pytest

from tools.commands.runstory import BLOCKED, RunStory

RUN = {
    "runId": "019d9079-e78a-7c31-8f02-6b1d4e9a5c77",
    "state": "waiting",
    "step": "tell",
    "deadlineAt": "D",
    "nextDueAt": None,
    "uncertain": False,
    "cancelRequested": False,
    "outcome": None,
    "output": None,
    "failureCode": None,
}


def inspection(*steps: Any, recovery: str | None = None, **run: Any) -> Any:
    return {"run": RUN | run, "steps": list(steps), "recovery": recovery}


def call(state: str, *attempts: tuple[str | None, int | None]) -> Any:
    tried = [
        {"number": number, "startedAt": "t", "endedAt": None, "result": result, "httpStatus": status}
        for number, (result, status) in enumerate(attempts, 1)
    ]
    return {"step": "tell", "type": "call", "state": state, "attempts": tried}


def test_a_run_that_waits_for_a_time_until_its_deadline_is_not_blocked(capsys: pytest.CaptureFixture[str]) -> None:
    pause = {"step": "tell", "type": "wait-until", "state": "waiting", "attempts": []}
    RunStory(machine=False).inspection(inspection(pause, nextDueAt="D"))
    assert "waiting at tell, due D\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("run", "recovery", "text"),
    [
        ({"state": "admitted", "step": None}, None, "admitted"),
        ({"nextDueAt": "T"}, None, "waiting at tell, due T"),
        ({"nextDueAt": "D"}, None, f"waiting at tell, {BLOCKED}"),
        ({"nextDueAt": "D"}, "read-again", "waiting at tell (read-again), due D"),
        ({"nextDueAt": "T"}, "read-again", "waiting at tell (read-again), due T"),
        ({"state": "uncertain", "nextDueAt": "T"}, "same-command", "uncertain at tell (same-command), due T"),
        (
            {"state": "uncertain"},
            "hold-after-dispatch",
            "uncertain at tell (hold-after-dispatch), waits for an operator: runs retry --accept-repeat or cancel",
        ),
        (
            {"state": "uncertain"},
            "same-command-and-receipt",
            "uncertain at tell (same-command-and-receipt), waits for an operator: runs reconcile, retry or cancel",
        ),
        (
            {"state": "uncertain"},
            "same-command",
            "uncertain at tell (same-command), waits for an operator: runs retry or cancel",
        ),
        (
            {"state": "uncertain"},
            None,
            "uncertain at tell, waits for an operator: runs retry --accept-repeat or cancel",
        ),
        ({"state": "running", "cancelRequested": True}, None, "running at tell; its end was asked for"),
        ({"state": "cancelled"}, None, "cancelled at tell"),
        ({"state": "cancelled", "uncertain": True}, None, "cancelled at tell, which may have been accepted"),
        ({"state": "failed", "failureCode": "call.refused"}, None, "failed at tell: call.refused"),
        ({"state": "completed", "outcome": "done", "output": "é"}, None, 'completed: done "é"'),
    ],
)
def test_a_person_is_told_where_a_run_is_and_why(
    run: dict[str, Any], recovery: str | None, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    RunStory(machine=False).inspection(inspection(recovery=recovery, **run))
    assert capsys.readouterr().out == f"run {RUN['runId']}: {text}\n"


def test_each_change_is_told_once_and_an_end_after_what_led_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    story = RunStory(machine=False)
    for now in (
        inspection(call("waiting", ("retryable", 503)), nextDueAt="T"),
        inspection(call("waiting", ("retryable", 503)), nextDueAt="T"),
        inspection(call("running", ("retryable", 503), (None, None)), state="running"),
        inspection(call("failed", ("retryable", 503), ("refused", 403)), state="failed", failureCode="call.refused"),
    ):
        story.inspection(now)
    assert capsys.readouterr().out.splitlines() == [
        f"run {RUN['runId']}: waiting at tell, due T",
        "step tell (call): waiting",
        "  tell, attempt 1: retryable (503)",
        f"run {RUN['runId']}: running at tell",
        "step tell (call): running",
        "  tell, attempt 2: under way",
        "  tell, attempt 2: refused (403)",
        "step tell (call): failed",
        f"run {RUN['runId']}: failed at tell: call.refused",
    ]


def test_a_machine_is_told_the_same_as_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    RunStory(machine=True).inspection(inspection(call("waiting", ("retryable", 503)), recovery="same-command"))
    run, step, attempt = map(json.loads, capsys.readouterr().out.splitlines())
    told = {name: value for name, value in RUN.items() if name != "deadlineAt"}
    assert run == {"event": "run", **told, "recovery": "same-command"}
    assert step == {"event": "step", "step": "tell", "type": "call", "state": "waiting"}
    assert attempt == {"event": "attempt", "step": "tell", **call("waiting", ("retryable", 503))["attempts"][0]}
