from __future__ import annotations

import json

import pytest

from tests.tools.commands.conftest import Command, StandIn
from tests.tools.commands.test_client import PROBLEM
from tools.state import StateFolder

RUN = {
    "runId": "019d9079-e78a-7c31-8f02-6b1d4e9a5c77",
    "workflowId": "case-follow-up",
    "workflowVersion": "1",
    "state": "admitted",
    "step": "remind",
    "admittedAt": "2026-04-15T09:30:01.482Z",
    "outcome": None,
}


def test_runs_are_listed_as_the_operator_asked_for_them(
    gatehouse: Command, folder: StateFolder, stand_in: StandIn
) -> None:
    stand_in.body = json.dumps({"runs": [RUN]}).encode()
    options = ["--limit", "5", "--run-state", "admitted", "--before", RUN["runId"] or ""]
    done = gatehouse("runs", "list", "--state", folder.path, "--url", stand_in.url, *options)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].split() == [
        *("019d9079-e78a-7c31-8f02-6b1d4e9a5c77", "case-follow-up", "1", "admitted", "remind"),
        "2026-04-15T09:30:01.482Z",
    ]
    assert stand_in.seen[0].target == f"/v1/runs?limit=5&state=admitted&before={RUN['runId']}"
    assert stand_in.seen[0].headers["Authorization"] == f"Bearer {folder.operator_token.read_text().strip()}"


def test_no_runs_are_told_in_words(gatehouse: Command, folder: StateFolder, stand_in: StandIn) -> None:
    stand_in.body = b'{"runs":[]}'
    assert gatehouse("runs", "list", "--state", folder.path, "--url", stand_in.url).stdout == "no runs\n"


def test_a_machine_gets_the_answer_itself(gatehouse: Command, folder: StateFolder, stand_in: StandIn) -> None:
    answer: dict[str, object] = {"run": RUN, "steps": [], "recovery": None}
    stand_in.body = json.dumps(answer).encode()
    done = gatehouse("runs", "show", "a/b", "--state", folder.path, "--url", stand_in.url, "--json")
    assert json.loads(done.stdout) == answer
    assert stand_in.seen[0].target == "/v1/runs/a%2Fb/inspect"


def test_a_run_is_shown_with_its_steps(gatehouse: Command, folder: StateFolder, stand_in: StandIn) -> None:
    attempt = {"number": 1, "startedAt": "t", "endedAt": None, "result": "uncertain", "httpStatus": None}
    step = {"step": "notify", "type": "call", "state": "uncertain", "attempts": [attempt]}
    stand_in.body = json.dumps({"run": RUN, "steps": [step], "recovery": "retry-same"}).encode()
    out = gatehouse("runs", "show", "x", "--state", folder.path, "--url", stand_in.url).stdout
    assert "outcome                -" in out
    assert out.splitlines()[-2:] == ["step notify (call): uncertain", "  attempt 1: uncertain -"]


def test_a_run_is_cancelled_with_a_reason(gatehouse: Command, folder: StateFolder, stand_in: StandIn) -> None:
    stand_in.body = json.dumps(RUN).encode()
    done = gatehouse("runs", "cancel", "x", "--reason", "mis-sent", "--state", folder.path, "--url", stand_in.url)
    assert done.returncode == 0
    assert (stand_in.seen[0].target, stand_in.seen[0].body) == ("/v1/runs/x/cancel", b'{"reason":"mis-sent"}')


@pytest.mark.parametrize("machine", [False, True])
def test_a_problem_ends_the_command_with_1(
    gatehouse: Command, folder: StateFolder, stand_in: StandIn, machine: bool
) -> None:
    stand_in.status, stand_in.body = 404, json.dumps(PROBLEM).encode()
    options = ["--json"] if machine else []
    done = gatehouse("runs", "show", "x", "--state", folder.path, "--url", stand_in.url, *options)
    assert done.returncode == 1
    assert done.stderr.startswith("gatehouse: run.not-visible (404): The run is not visible\n")
    assert (json.loads(done.stdout) == PROBLEM) if machine else (done.stdout == "")


def test_a_server_that_is_not_there_ends_the_command_with_3(gatehouse: Command, folder: StateFolder) -> None:
    done = gatehouse("runs", "list", "--state", folder.path, GATEHOUSE_CONTROL_BIND="127.0.0.1:1")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("gatehouse: http://127.0.0.1:1 does not answer")


@pytest.mark.parametrize(
    "options",
    [
        ["--limit", "0"],
        ["--limit", "101"],
        ["--url", "nowhere"],
        ["--url", "ftp://h"],
        ["--url", "http://"],
        ["--nope"],
    ],
)
def test_wrong_options_end_the_command_with_2(gatehouse: Command, folder: StateFolder, options: list[str]) -> None:
    done = gatehouse("runs", "list", "--state", folder.path, "--json", *options)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_folder_that_was_never_made_is_refused_with_the_command_that_makes_it(gatehouse: Command) -> None:
    done = gatehouse("runs", "list", "--state", "none", "--json")
    assert done.returncode == 1
    assert "`gatehouse init --state none` makes it" in json.loads(done.stdout)["detail"]


def test_a_missing_token_is_refused_by_its_file(gatehouse: Command, folder: StateFolder) -> None:
    folder.operator_token.unlink()
    done = gatehouse("runs", "list", "--state", folder.path)
    assert done.returncode == 1
    assert "operator.token: No such file or directory" in done.stderr
