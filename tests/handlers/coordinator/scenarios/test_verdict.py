from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handlers.coordinator.scenarios.run import Observed
from handlers.coordinator.scenarios.stage import Sent
from handlers.coordinator.scenarios.verdict import Verdict, judge
from tests.handlers.coordinator.scenarios.staging import made, scenario

SENT = Sent("ask", "POST", "/cases/C-1/decision", "", {"urgent": True}, receipt=False)
OBSERVED = Observed(
    path=("ask", "decide", "done"),
    state="completed",
    outcome="decided",
    output={"n": 1, "yes": True},
    elapsed_seconds=60,
    calls=(SENT,),
)


def judged(folder: Path, expect: dict[str, Any], observed: Observed = OBSERVED) -> Verdict:
    return judge(scenario(folder, made(folder), expect=expect), observed)


@pytest.mark.parametrize(
    "expect",
    [
        {},
        {"state": "completed", "outcome": "decided", "failureCode": None, "elapsedSeconds": 60},
        {"path": ["ask", "decide", "done"], "output": {"yes": True, "n": 1}},
        {"calls": [{}]},
        {"calls": [{"step": "ask", "method": "POST", "body": {"urgent": True}, "query": "", "receipt": False}]},
    ],
)
def test_what_came_as_expected_passes(tmp_path: Path, expect: dict[str, Any]) -> None:
    verdict = judged(tmp_path, expect)
    assert (verdict.passed, verdict.differences) == (True, ())
    assert list(verdict.lines()) == ["ok    a scenario"]


@pytest.mark.parametrize(
    ("expect", "differences"),
    [
        ({"state": "failed"}, [("state", "failed", "completed")]),
        ({"output": {"n": 1, "yes": 1}}, [("output", {"n": 1, "yes": 1}, {"n": 1, "yes": True})]),
        ({"elapsedSeconds": 61, "outcome": None}, [("elapsedSeconds", 61, 60), ("outcome", None, "decided")]),
        ({"calls": []}, [("calls", "0 requests", "1 requests")]),
        (
            {"calls": [{"method": "GET"}, {}]},
            [("calls.0.method", "GET", "POST"), ("calls", "2 requests", "1 requests")],
        ),
        ({"refused": "input.invalid"}, [("refused", "input.invalid", None)]),
    ],
)
def test_each_member_that_came_otherwise_is_a_difference(
    tmp_path: Path, expect: dict[str, Any], differences: list[Any]
) -> None:
    verdict = judged(tmp_path, expect)
    assert (verdict.passed, list(verdict.differences)) == (False, differences)


def test_a_refusal_is_compared_alone(tmp_path: Path) -> None:
    refused = Observed(refused="input.invalid")
    assert judged(tmp_path, {"refused": "input.invalid"}, refused).passed
    assert judged(tmp_path, {"state": "completed"}, refused).differences == (("refused", None, "input.invalid"),)


def test_a_failure_tells_what_was_expected_what_came_and_where_the_run_went(tmp_path: Path) -> None:
    verdict = judged(tmp_path, {"outcome": None})
    assert list(verdict.lines()) == [
        f"FAIL  a scenario ({tmp_path}/scenarios/one.yaml)",
        "      outcome: expected null",
        '               got      "decided"',
        "      it came to completed (decided) after 60 s, by ask, decide, done",
    ]
    assert verdict.value()["differences"] == [{"member": "outcome", "expected": None, "got": "decided"}]


def test_what_a_scenario_left_open_fails_it(tmp_path: Path) -> None:
    verdict = judged(tmp_path, {}, Observed(state="running", troubles=("replies.ask: 0 given",)))
    assert list(verdict.lines())[1:] == ["      replies.ask: 0 given", "      it came to running after 0 s, by no step"]
    assert verdict.value()["troubles"] == ["replies.ask: 0 given"]
