from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support import failing
from tests.support.contract import places
from tests.support.gatehouse import Gatehouse, NewServer
from tools.contract.run import Outcome, run

LINKS = re.compile(r"API Links: +(\d+) covered / (\d+) selected")
SCENARIOS = re.compile(r"Scenarios: +(\d+)")

# schemathesis begins no scenario with a path that has parameters of which no operation tells, unless it knows of no
# other: what an event leads to is therefore tried apart.
AFTER_AN_EVENT = [
    "--phases=stateful",
    *(f"--include-operation-id={name}" for name in ("admitEvent", "getRun", "inspectRun")),
]


@pytest.fixture
def busy(new_server: NewServer) -> Gatehouse:
    """A server of its own that has a run."""
    server = new_server()
    server.start()
    assert server.deliver().status == 204
    return server


def try_out(server: Gatehouse, seed: int, examples: int, *options: str) -> Outcome:
    return run(server.control, token=server.token, key=server.key, seed=seed, examples=examples, options=options)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_schemathesis_finds_nothing(seed: int, busy: Gatehouse) -> None:
    outcome = try_out(busy, seed, 200)
    assert outcome.sound, outcome.text
    assert not any(outcome.report["warnings"].values()), outcome.text
    assert outcome.report["operations"]["tested"] == len(places())
    assert outcome.report["test_cases"]["generated"] > 3_000
    assert_scenarios_went_on(outcome, links=10)
    assert "Traceback" not in busy.log


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_schemathesis_finds_nothing_after_an_event(seed: int, busy: Gatehouse) -> None:
    outcome = try_out(busy, seed, 200, *AFTER_AN_EVENT)
    assert outcome.sound, outcome.text
    assert_scenarios_went_on(outcome, links=2)


def test_schemathesis_finds_a_fault_where_there_is_one(new_server: NewServer) -> None:
    server = new_server(command=[sys.executable, str(Path(failing.__file__)), "doctor"])
    server.start()
    outcome = try_out(server, 1, 5, "--include-operation-id=doctor")
    assert not outcome.sound
    assert [failure["title"] for failure in outcome.report["failures"]] == ["Server error"]


def assert_scenarios_went_on(outcome: Outcome, *, links: int) -> None:
    """Where a scenario goes another way when it is tried again, the phase ends and says nothing of it."""
    followed, scenarios = LINKS.search(outcome.text), SCENARIOS.search(outcome.text)
    assert followed
    assert scenarios
    assert int(followed[1]) >= links, outcome.text
    assert int(scenarios[1]) >= 200, outcome.text
