from __future__ import annotations

import pytest

from handlers.steps import plan
from handlers.steps.plan import Command, PlanError, Step


def test_a_plan_gives_its_steps_in_order_with_the_places_of_their_names() -> None:
    text = b"""\
steps:
  - name: services
    run: [sh, -c, "echo up"]
    timeoutSeconds: 60
  - {name: "raft:control", run: [etcd], timeoutSeconds: 5}
"""
    assert plan.parse(text, "plan.yaml") == (
        Step("services", Command(("sh", "-c", "echo up"), 60), "plan.yaml:2:5"),
        Step("raft:control", Command(("etcd",), 5), "plan.yaml:5:6"),
    )


@pytest.mark.parametrize("text", [b"", b"# nothing yet\n", b"steps:\n", b"steps: []\n"])
def test_a_plan_may_have_no_steps(text: bytes) -> None:
    assert plan.parse(text, "plan.yaml") == ()


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (b"steps: {}", "plan.yaml:1:1: steps must be a list"),
        (b"- x", "plan.yaml:1:1: must be a mapping"),
        (b"steps: [", "plan.yaml:1:9: "),
        (b"steps: yes", "plan.yaml:1:8: "),
        (
            b"steps: [{name: '\\0', run: [\"a\\0\"], timeoutSeconds: true}]",
            "plan.yaml:1:22: steps[0].run must be a list",
        ),
        (b"\xff", "plan.yaml:1:1: not UTF-8"),
    ],
)
def test_what_is_no_plan_is_refused_by_name_and_place(text: bytes, finding: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan.parse(text, "plan.yaml")
    assert refused.value.findings[0].startswith(finding)
    assert str(refused.value) == "; ".join(refused.value.findings)
