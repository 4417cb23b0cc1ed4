from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import failing, forks
from tests.support.contract import places
from tests.support.effort import in_ci_alone, tries
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.pretended import CALLING, leave_in_doubt, receipts_at
from tests.support.receivers import Receiver

SEEDS = range(1, 1 + tries(2, elsewhere=1))
EXAMPLES = tries(100, elsewhere=12)
EXAMPLES_AFTER_AN_EVENT = tries(25, elsewhere=10)
EXAMPLES_OF_JOIN = tries(50, elsewhere=10)
EXAMPLES_OF_INSTALLER = tries(30, elsewhere=8)
# An attempt ends at once, so that nothing waits long for a stream's end.
PLAN = """
steps:
  - name: greet
    run: [echo, hello]
    timeoutSeconds: 10
"""


class Outcome(NamedTuple):
    """What `gatehouse check server` made of one API: its exit code, its report, and its words for people."""

    code: int
    value: dict[str, Any]
    text: str

    @property
    def runs(self) -> list[dict[str, Any]]:
        """What each run of schemathesis has done."""
        (api,) = self.value["apis"]
        return list(api["runs"])

    @property
    def titles(self) -> set[str]:
        """What the findings are."""
        return {finding["title"] for finding in self.value["findings"]}


class Trial(NamedTuple):
    """One seed, a server for each API: all of the coordinator, then what an event leads to; all of the two others."""

    coordinator: Gatehouse
    of_coordinator: Future[Outcome]
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
        pool.submit(try_out, coordinator, "coordinator", seed, EXAMPLES),
        founder,
        pool.submit(try_out, founder, "join", seed, EXAMPLES_OF_JOIN),
        machine,
        pool.submit(try_out, machine, "installer", seed, EXAMPLES_OF_INSTALLER),
    )


def try_out(server: Gatehouse, api: str, seed: int, examples: int, *options: str) -> Outcome:
    order = ["--state", str(server.state), "--api", api, "--seed", str(seed), "--examples", str(examples), *options]
    done = forks.run(["check", "server", *order, "--json"], environment=server.environment(), timeout=300)
    assert done.stdout, done.stderr
    for secret in (server.token, server.code, server.key.hex()):
        assert secret not in done.stdout + done.stderr
    return Outcome(done.returncode, json.loads(done.stdout), done.stdout)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_schemathesis_finds_nothing_in_the_coordinator(seed: int, trials: dict[int, Trial]) -> None:
    trial = trials[seed]
    outcome = trial.of_coordinator.result()
    assert_sound(outcome)
    everywhere, after_an_event = outcome.runs
    assert_scenarios_went_on(everywhere, EXAMPLES, 10)
    assert_scenarios_went_on(after_an_event, EXAMPLES_AFTER_AN_EVENT, 2)
    assert everywhere["warnings"] == {}
    assert everywhere["operations"]["tested"] == len(places())
    assert everywhere["cases"] > 15 * EXAMPLES
    assert "Traceback" not in trial.coordinator.log


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_schemathesis_finds_nothing_in_the_join_on_either_listener(seed: int, trials: dict[int, Trial]) -> None:
    outcome = trials[seed].of_join.result()
    assert_sound(outcome)
    (tried,) = outcome.runs
    assert_scenarios_went_on(tried, EXAMPLES_OF_JOIN, 8)
    assert tried["warnings"] == {}
    # An operation that two listeners have is tested on both.
    listeners = [name for place in places("join").values() for name in place.content["x-listeners"]]
    assert tried["operations"]["tested"] == len(listeners)
    assert tried["cases"] > 10 * EXAMPLES_OF_JOIN
    assert "Traceback" not in trials[seed].founder.log


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_schemathesis_finds_nothing_in_the_installer_nor_in_its_events(seed: int, trials: dict[int, Trial]) -> None:
    outcome = trials[seed].of_installer.result()
    assert_sound(outcome)
    (tried,) = outcome.runs
    assert_scenarios_went_on(tried, EXAMPLES_OF_INSTALLER, 4)
    assert tried["warnings"] == {}
    assert tried["operations"]["tested"] == len(places("installer"))
    assert tried["cases"] > 300
    assert "Traceback" not in trials[seed].machine.log


@in_ci_alone
def test_schemathesis_finds_a_fault_where_there_is_one(new_server: NewServer) -> None:
    server = new_server(command=[sys.executable, str(Path(failing.__file__)), "doctor,report_join_events"])
    server.start()
    with ThreadPoolExecutor(2) as pool:
        trials = [
            (name, pool.submit(try_out, server, api, 1, 5, "--operation", name, *options))
            for api, name, *options in (
                ("coordinator", "doctor", "--phase", "fuzzing"),
                ("join", "reportJoinEvents", "--phase", "examples"),
            )
        ]
    for name, trial in trials:
        outcome = trial.result()
        assert outcome.code == 1
        assert outcome.titles == {"Server error"}
        assert [finding["operations"] for finding in outcome.value["findings"]] == [[name]]


@in_ci_alone
def test_schemathesis_finds_an_event_that_its_document_does_not_have(trials: dict[int, Trial]) -> None:
    trial = trials[SEEDS[-1]]
    trial.of_installer.result()
    trial.machine.stop()
    with contextlib.closing(sqlite3.connect(trial.machine.state / "gatehouse.db")) as database, database:
        database.execute("UPDATE install_events SET body = '{}'")
    trial.machine.start()
    outcome = try_out(trial.machine, "installer", 1, 5, "--operation", "streamInstallEvents", "--phase", "examples")
    assert outcome.code == 1
    assert outcome.titles == {"SSE event payload violates content schema"}


def assert_sound(outcome: Outcome) -> None:
    assert (outcome.code, outcome.value["findings"]) == (0, []), outcome.text


def assert_scenarios_went_on(tried: dict[str, Any], examples: int, links: int) -> None:
    """Where a scenario goes another way when it is tried again, the phase ends and says nothing of it."""
    assert tried["links"] >= links, tried
    assert tried["scenarios"] >= examples, tried
