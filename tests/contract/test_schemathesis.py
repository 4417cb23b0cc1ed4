from __future__ import annotations

import contextlib
import re
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import failing
from tests.support.contract import places
from tests.support.effort import tries
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.pretended import CALLING, leave_in_doubt, receipts_at
from tests.support.receivers import Receiver
from tools.contract.run import AUTHORITY_VARIABLE, CODE_VARIABLE, KEY_VARIABLE, OPERATOR_VARIABLE, Outcome, run

SEEDS = range(1, 1 + tries(3, elsewhere=1))
EXAMPLES = tries(200, elsewhere=25)
EXAMPLES_AFTER_AN_EVENT = tries(50, elsewhere=10)
EXAMPLES_OF_JOIN = tries(100, elsewhere=10)
EXAMPLES_OF_INSTALLER = tries(60, elsewhere=8)
LINKS = re.compile(r"API Links: +(\d+) covered / (\d+) selected")
SCENARIOS = re.compile(r"Scenarios: +(\d+)")
# An attempt ends at once, so that nothing waits long for a stream's end.
PLAN = """
steps:
  - name: greet
    run: [echo, hello]
    timeoutSeconds: 10
"""

# schemathesis begins no scenario with a path that has parameters of which no operation tells, unless it knows of no
# other: what an event leads to is therefore tried apart.
AFTER_AN_EVENT = [
    "--phases=stateful",
    *(f"--include-operation-id={name}" for name in ("admitEvent", "getRun", "inspectRun")),
]


class Trial(NamedTuple):
    """One seed, a server for each API: all of the coordinator, then what an event leads to; all of the two others."""

    coordinator: Gatehouse
    of_coordinator: Future[tuple[Outcome, Outcome]]
    founder: Gatehouse
    of_join: Future[Outcome]
    machine: Gatehouse
    of_installer: Future[Outcome]


@pytest.fixture(scope="module")
def trials(new_server: NewServer) -> Iterator[dict[int, Trial]]:
    """The trial of each seed; two are under way at a time."""
    with Receiver() as receiver, ThreadPoolExecutor(2) as pool:
        yield {seed: begin(new_server, pool, seed, receiver) for seed in SEEDS}


def begin(new_server: NewServer, pool: ThreadPoolExecutor, seed: int, receiver: Receiver) -> Trial:
    coordinator, founder, machine = new_server(), new_server(), new_server()
    coordinator.configure(connections={"crm": receipts_at(receiver.url)})
    coordinator.apply(CALLING)
    (machine.state / "install-plan.yaml").write_text(PLAN)
    for server in (coordinator, founder, machine):
        server.start()
    for _ in range(3):
        leave_in_doubt(coordinator, coordinator.deliver().run)
    return Trial(
        coordinator,
        pool.submit(try_coordinator, coordinator, seed),
        founder,
        pool.submit(run_join, founder, seed, EXAMPLES_OF_JOIN),
        machine,
        pool.submit(run_installer, machine, seed, EXAMPLES_OF_INSTALLER),
    )


def try_coordinator(server: Gatehouse, seed: int) -> tuple[Outcome, Outcome]:
    return (
        run_coordinator(server, seed, EXAMPLES),
        run_coordinator(server, seed, EXAMPLES_AFTER_AN_EVENT, *AFTER_AN_EVENT),
    )


def run_coordinator(server: Gatehouse, seed: int, examples: int, *options: str) -> Outcome:
    listeners = {"control": server.control}
    secrets = {OPERATOR_VARIABLE: server.token, KEY_VARIABLE: server.key.hex()}
    return run("coordinator", listeners, secrets, seed=seed, examples=examples, options=options)


def run_join(server: Gatehouse, seed: int, examples: int, *options: str) -> Outcome:
    listeners = {"control": server.control, "join": server.join}
    secrets = {OPERATOR_VARIABLE: server.token, AUTHORITY_VARIABLE: str(server.ca_file)}
    options = (f"--tls-verify={server.ca_file}", *options)
    return run("join", listeners, secrets, seed=seed, examples=examples, options=options)


def run_installer(server: Gatehouse, seed: int, examples: int, *options: str) -> Outcome:
    listeners = {"control": server.control, "installer": server.installer}
    secrets = {
        OPERATOR_VARIABLE: server.token,
        AUTHORITY_VARIABLE: str(server.ca_file),
        CODE_VARIABLE: server.code,
    }
    options = (f"--tls-verify={server.ca_file}", *options)
    return run("installer", listeners, secrets, seed=seed, examples=examples, options=options)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_schemathesis_finds_nothing_in_the_coordinator(seed: int, trials: dict[int, Trial]) -> None:
    trial = trials[seed]
    everywhere, after_an_event = trial.of_coordinator.result()
    for outcome, examples, links in ((everywhere, EXAMPLES, 10), (after_an_event, EXAMPLES_AFTER_AN_EVENT, 2)):
        assert outcome.sound, outcome.text
        assert_scenarios_went_on(outcome, examples, links)
    assert not any(everywhere.report["warnings"].values()), everywhere.text
    assert everywhere.report["operations"]["tested"] == len(places())
    assert everywhere.report["test_cases"]["generated"] > 15 * EXAMPLES
    assert "Traceback" not in trial.coordinator.log


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_schemathesis_finds_nothing_in_the_join_on_either_listener(seed: int, trials: dict[int, Trial]) -> None:
    outcome = trials[seed].of_join.result()
    assert outcome.sound, outcome.text
    assert_scenarios_went_on(outcome, EXAMPLES_OF_JOIN, 8)
    assert not any(outcome.report["warnings"].values()), outcome.text
    # An operation that two listeners have is tested on both.
    listeners = [name for place in places("join").values() for name in place.content["x-listeners"]]
    assert outcome.report["operations"]["tested"] == len(listeners)
    assert outcome.report["test_cases"]["generated"] > 10 * EXAMPLES_OF_JOIN
    assert "Traceback" not in trials[seed].founder.log


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_schemathesis_finds_nothing_in_the_installer_nor_in_its_events(seed: int, trials: dict[int, Trial]) -> None:
    outcome = trials[seed].of_installer.result()
    assert outcome.sound, outcome.text
    assert_scenarios_went_on(outcome, EXAMPLES_OF_INSTALLER, 4)
    assert not any(outcome.report["warnings"].values()), outcome.text
    assert outcome.report["operations"]["tested"] == len(places("installer"))
    assert outcome.report["test_cases"]["generated"] > 300
    assert "Traceback" not in trials[seed].machine.log


def test_schemathesis_finds_a_fault_where_there_is_one(new_server: NewServer) -> None:
    server = new_server(command=[sys.executable, str(Path(failing.__file__)), "doctor,report_join_events"])
    server.start()
    with ThreadPoolExecutor(2) as pool:
        outcomes = (
            pool.submit(run_coordinator, server, 1, 5, "--include-operation-id=doctor"),
            pool.submit(run_join, server, 1, 5, "--include-operation-id=reportJoinEvents", "--phases=examples"),
        )
    for outcome in (each.result() for each in outcomes):
        assert not outcome.sound
        assert {failure["title"] for failure in outcome.report["failures"]} == {"Server error"}


def test_schemathesis_finds_an_event_that_its_document_does_not_have(trials: dict[int, Trial]) -> None:
    trial = trials[SEEDS[-1]]
    trial.of_installer.result()
    trial.machine.stop()
    with contextlib.closing(sqlite3.connect(trial.machine.state / "gatehouse.db")) as database, database:
        database.execute("UPDATE install_events SET body = '{}'")
    trial.machine.start()
    outcome = run_installer(trial.machine, 1, 5, "--include-operation-id=streamInstallEvents", "--phases=examples")
    assert {failure["title"] for failure in outcome.report["failures"]} == {"SSE event payload violates content schema"}


def assert_scenarios_went_on(outcome: Outcome, examples: int, links: int) -> None:
    """Where a scenario goes another way when it is tried again, the phase ends and says nothing of it."""
    followed, scenarios = LINKS.search(outcome.text), SCENARIOS.search(outcome.text)
    assert followed
    assert scenarios
    assert int(followed[1]) >= links, outcome.text
    assert int(scenarios[1]) >= examples, outcome.text
