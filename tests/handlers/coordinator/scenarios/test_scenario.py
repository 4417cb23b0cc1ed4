from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handlers.coordinator.scenarios.scenario import Act, Reply, load
from tests.handlers.coordinator.scenarios.staging import STARTED, made, put, scenario
from tests.handlers.coordinator.workflows.building import asking, write

FAULTY = """\
name: everything is wrong
workflow: case-decision
event:
  trigger: case-closed
  time: 2026-01-05T25:00:00Z
input: {}
at: 2026-13-05T09:00:00Z
connections:
  registry:
    recovery: read-again
    responseSchema: {type: strng}
  other: {}
replies:
  ask:
    - {}
    - {status: 200, fault: timeout}
    - {fault: timeout, retryAfter: 3}
    - {status: 200, body: 1, text: "1"}
    - {status: 503, always: true}
    - {status: 200}
  pause:
    - {status: 200}
receipts:
  ask:
    - {status: 404}
expect:
  path: [ask, think]
  outcome: undecided
  refused: input.invalid
  calls:
    - {step: pause}
"""
FOUND = [
    (1, "a run begins with one of event and input"),
    (4, "event.trigger: the workflow has no trigger case-closed"),
    (5, "event.time: is no time of RFC 3339"),
    (7, "at: is no time of RFC 3339"),
    (10, "connections.registry.recovery: must be another than read-again"),
    (11, "connections.registry.responseSchema.type: must be a type of JSON"),
    (12, "connections.other: the workflow does not use this connection"),
    (15, "replies.ask.0: a reply has one of status and fault"),
    (16, "replies.ask.1: a reply has one of status and fault"),
    (17, "replies.ask.2: a fault comes with nothing but afterSeconds and always"),
    (18, "replies.ask.3: a reply has one of body and text"),
    (20, "replies.ask.5: none comes after the one that is always given"),
    (21, "replies.pause: the workflow has no call of this name"),
    (24, "receipts.ask: registry is not assumed to recover by same-command-and-receipt"),
    (27, "expect.path.1: there is no step think"),
    (28, "expect.outcome: the outcome undecided is not declared"),
    (29, "expect.refused: of what is refused nothing else comes"),
    (31, "expect.calls.0.step: there is no call pause"),
]


def test_every_fault_of_a_scenario_is_told_by_file_and_line(tmp_path: Path) -> None:
    package = made(tmp_path)
    file = put(tmp_path, FAULTY)
    scenarios, findings = load(tmp_path, package)
    assert (scenarios, {each.file for each in findings}) == ([], {str(file)})
    assert [each.line for each in findings] == [line for line, _ in FOUND]
    for found, (_, words) in zip(findings, FOUND, strict=True):
        assert found.message.startswith(words)


@pytest.mark.parametrize("text", ["name: [", "name: yes", "- 1", "name: a\nexpect: 1\ninput: 1"])
def test_a_file_that_is_no_scenario_is_a_finding(tmp_path: Path, text: str) -> None:
    package = made(tmp_path)
    put(tmp_path, text)
    put(tmp_path, {**STARTED, "expect": {}}, "two.yaml")
    scenarios, findings = load(tmp_path, package)
    assert scenarios == []
    assert findings


def test_a_package_without_scenarios_is_a_finding(tmp_path: Path) -> None:
    package = made(tmp_path)
    [missing] = load(tmp_path, package).findings
    assert (
        str(missing)
        == f"{tmp_path}/scenarios:1:1: a package has 1 to 1024 scenarios here, a file each, and there are none"
    )
    (tmp_path / "scenarios").mkdir()
    assert load(tmp_path, package).findings == [missing]
    (tmp_path / "scenarios").rmdir()
    (tmp_path / "scenarios").touch()
    [odd] = load(tmp_path, package).findings
    assert "cannot be read: Not a directory" in odd.message


def test_the_workflow_may_be_left_out_where_there_is_only_one(tmp_path: Path) -> None:
    assert scenario(tmp_path, made(tmp_path)).workflow.id == "case-decision"
    write(tmp_path, "b.yaml", asking(id="other"))
    package = made(tmp_path)
    [finding] = load(tmp_path, package).findings
    assert finding.message == "workflow: the workflow has to be one of case-decision, other"
    assert scenario(tmp_path, package, workflow="other").workflow.id == "other"


def test_what_is_given_in_seconds_is_milliseconds_and_acts_are_in_the_order_of_time(tmp_path: Path) -> None:
    acts: list[dict[str, Any]] = [
        {"act": "cancel", "afterSeconds": 2},
        {"act": "retry-same", "afterSeconds": 0.5, "acceptRepeat": True},
    ]
    replies = {"ask": [{"status": 200, "body": {"a": 1}, "retryAfter": 1, "afterSeconds": 0.25}, {"fault": "timeout"}]}
    found = scenario(tmp_path, made(tmp_path), acts=acts, replies=replies, at="1970-01-01T00:00:01Z")
    assert found.acts == (Act("retry-same", 500, True), Act("cancel", 2000, False))
    assert found.replies["ask"] == (
        Reply(200, b'{"a":1}', 1000, None, 250, False),
        Reply(None, b"", None, "timeout", 0, False),
    )
    assert found.at == 1000
