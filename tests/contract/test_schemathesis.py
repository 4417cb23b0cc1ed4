from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import failing
from tests.support.contract import places
from tests.support.effort import tries
from tests.support.gatehouse import Gatehouse, NewServer
from tools.contract.run import KEY_VARIABLE, OPERATOR_VARIABLE, Outcome, run

SEEDS = range(1, 1 + tries(3, elsewhere=1))
EXAMPLES = tries(200, elsewhere=40)
EXAMPLES_AFTER_AN_EVENT = tries(50, elsewhere=20)
LINKS = re.compile(r"API Links: +(\d+) covered / (\d+) selected")
SCENARIOS = re.compile(r"Scenarios: +(\d+)")

# schemathesis begins no scenario with a path that has parameters of which no operation tells, unless it knows of no
# other: what an event leads to is therefore tried apart.
AFTER_AN_EVENT = [
    "--phases=stateful",
    *(f"--include-operation-id={name}" for name in ("admitEvent", "getRun", "inspectRun")),
]


@pytest.fixture(scope="module")
def outcomes(new_server: NewServer) -> Iterator[dict[int, Future[list[Outcome]]]]:
    """What comes of each seed, first for all operations, then after an event; two seeds are tried at a time."""
    servers = {seed: new_server() for seed in SEEDS}
    for server in servers.values():
        server.start()
        assert server.deliver().status == 204
    with ThreadPoolExecutor(2) as pool:
        yield {seed: pool.submit(try_out, server, seed) for seed, server in servers.items()}


def listeners(server: Gatehouse) -> dict[str, str]:
    return {"control": server.control}


def secrets(server: Gatehouse) -> dict[str, str]:
    return {OPERATOR_VARIABLE: server.token, KEY_VARIABLE: server.key.hex()}


def try_out(server: Gatehouse, seed: int) -> list[Outcome]:
    outcomes = [
        run("coordinator", listeners(server), secrets(server), seed=seed, examples=examples, options=options)
        for examples, options in ((EXAMPLES, []), (EXAMPLES_AFTER_AN_EVENT, AFTER_AN_EVENT))
    ]
    assert "Traceback" not in server.log
    return outcomes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_schemathesis_finds_nothing(seed: int, outcomes: dict[int, Future[list[Outcome]]]) -> None:
    everywhere, after_an_event = outcomes[seed].result()
    for outcome, examples, links in ((everywhere, EXAMPLES, 10), (after_an_event, EXAMPLES_AFTER_AN_EVENT, 2)):
        assert outcome.sound, outcome.text
        assert_scenarios_went_on(outcome, examples, links)
    assert not any(everywhere.report["warnings"].values()), everywhere.text
    assert everywhere.report["operations"]["tested"] == len(places())
    assert everywhere.report["test_cases"]["generated"] > 15 * EXAMPLES


def test_schemathesis_finds_a_fault_where_there_is_one(new_server: NewServer) -> None:
    server = new_server(command=[sys.executable, str(Path(failing.__file__)), "doctor"])
    server.start()
    options = ["--include-operation-id=doctor"]
    outcome = run("coordinator", listeners(server), secrets(server), seed=1, examples=5, options=options)
    assert not outcome.sound
    assert [failure["title"] for failure in outcome.report["failures"]] == ["Server error"]


def assert_scenarios_went_on(outcome: Outcome, examples: int, links: int) -> None:
    """Where a scenario goes another way when it is tried again, the phase ends and says nothing of it."""
    followed, scenarios = LINKS.search(outcome.text), SCENARIOS.search(outcome.text)
    assert followed
    assert scenarios
    assert int(followed[1]) >= links, outcome.text
    assert int(scenarios[1]) >= examples, outcome.text
