from __future__ import annotations

import pytest

from handlers.steps.plan import Command
from tools.commands.terminal import RefusedError
from tools.joiner import planfile

GOOD = b"""\
steps:
  - name: services
    run: [sh, -c, "echo up"]
    timeoutSeconds: 60
  - {name: "raft:control", run: [etcd], timeoutSeconds: 5}
"""


def findings(text: str) -> list[str]:
    with pytest.raises(RefusedError) as refused:
        planfile.parse(text.encode(), "plan.yaml")
    found = refused.value.body["findings"]
    assert refused.value.detail == "\n  ".join(["the plan is refused:", *found])
    return list(found)


def test_a_plan_gives_the_commands_of_its_steps() -> None:
    plan = planfile.parse(GOOD, "plan.yaml")
    assert plan.commands == {
        "services": Command(("sh", "-c", "echo up"), 60),
        "raft:control": Command(("etcd",), 5),
    }
    plan.fit(["raft:control", "services", "complete"])


@pytest.mark.parametrize("text", [b"", b"# nothing yet\n", b"steps:\n", b"steps: []\n"])
def test_a_plan_may_have_no_steps(text: bytes) -> None:
    assert planfile.parse(text, "plan.yaml") == planfile.EMPTY


def test_a_step_that_the_founder_does_not_plan_is_refused_by_its_place() -> None:
    with pytest.raises(RefusedError) as refused:
        planfile.parse(GOOD, "plan.yaml").fit(["services", "complete"])
    assert refused.value.body["findings"] == [
        "plan.yaml:5:6: raft:control is no step of this join; they are services, complete"
    ]


def test_everything_that_is_wrong_is_told_by_name_and_place() -> None:
    text = """\
plan: x
steps:
  - name: ""
    run: []
    timeoutSeconds: 0
    shell: true
  - 7
  - {}
  - {name: services, run: sh, timeoutSeconds: 1.5}
  - {name: services, run: [sh, 7], timeoutSeconds: 86401}
"""
    assert findings(text) == [
        "plan.yaml:1:1: plan is not known; there is steps",
        "plan.yaml:6:5: steps[0].shell is not known; there are name, run, timeoutSeconds",
        "plan.yaml:3:5: steps[0].name must be text",
        "plan.yaml:4:5: steps[0].run must be a list of texts, the program first",
        "plan.yaml:5:5: steps[0].timeoutSeconds must be a whole number from 1 to 86400",
        "plan.yaml:7:5: steps[1] must be a mapping",
        *(f"plan.yaml:8:5: steps[2].{name} is missing" for name in ("name", "run", "timeoutSeconds")),
        "plan.yaml:9:22: steps[3].run must be a list of texts, the program first",
        "plan.yaml:9:31: steps[3].timeoutSeconds must be a whole number from 1 to 86400",
        "plan.yaml:10:22: steps[4].run must be a list of texts, the program first",
        "plan.yaml:10:36: steps[4].timeoutSeconds must be a whole number from 1 to 86400",
        "plan.yaml:10:6: steps[4].name must name each step once",
    ]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("steps: {}", "plan.yaml:1:1: steps must be a list"),
        ("- x", "plan.yaml:1:1: must be a mapping"),
        ("steps: [", "plan.yaml:1:9: "),
        ("steps: yes", "plan.yaml:1:8: "),
    ],
)
def test_what_is_no_plan_is_refused(text: str, finding: str) -> None:
    assert findings(text)[0].startswith(finding)
