from __future__ import annotations

from pathlib import Path

import pytest

from handlers.coordinator import workflows
from handlers.coordinator.scenarios.run import carry_out
from handlers.coordinator.scenarios.scenario import Scenario, load
from handlers.coordinator.scenarios.verdict import judge
from handlers.coordinator.workflows import package as packages

pytestmark = pytest.mark.anyio

SHIPPED = Path(workflows.__file__).parent
FOLDERS = [SHIPPED / "demo", SHIPPED / "examples" / "awaited-decision", SHIPPED / "examples" / "delayed-notice"]


def loaded(folder: Path) -> list[Scenario]:
    scenarios, findings = load(folder, packages.load(folder))
    assert findings == []
    return scenarios


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_a_package_that_is_shipped_does_what_its_scenarios_expect(folder: Path) -> None:
    package = packages.load(folder)
    verdicts = [judge(scenario, await carry_out(scenario, package)) for scenario in loaded(folder)]
    assert [line for verdict in verdicts if not verdict.passed for line in verdict.lines()] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_its_scenarios_go_through_every_step_and_meet_a_time_out_a_refusal_and_the_deadline(folder: Path) -> None:
    package = packages.load(folder)
    scenarios = loaded(folder)
    seen = [await carry_out(scenario, package) for scenario in scenarios]
    [workflow] = package.workflows.values()
    assert {step for each in seen for step in each.path} == set(workflow.steps)
    assert {"call.refused", "deadline.passed"} <= {each.failure_code for each in seen}
    replies = [reply for scenario in scenarios for given in scenario.replies.values() for reply in given]
    assert "timeout" in {reply.fault for reply in replies}


def test_every_example_is_one_of_these() -> None:
    assert [*sorted((SHIPPED / "examples").iterdir())] == FOLDERS[1:]
