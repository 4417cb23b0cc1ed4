from __future__ import annotations

import json
from typing import get_args

import pytest

from storage.runs import RunState
from tests.tools.commands.conftest import Command, StandIn
from tests.tools.commands.test_client import PROBLEM
from tools.commands.runs import STATES
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


def step(name: str, state: str, *results: str | None, kind: str = "call") -> dict[str, object]:
    attempts = [
        {"number": number, "startedAt": "t", "endedAt": result and "t", "result": result, "httpStatus": None}
        for number, result in enumerate(results, 1)
    ]
    return {"step": name, "type": kind, "state": state, "attempts": attempts}


def inspection(*steps: dict[str, object], recovery: str | None = None, **run: object) -> dict[str, object]:
    rest = {"nextDueAt": None, "uncertain": False, "cancelRequested": False, "output": None, "failureCode": None}
    return {"run": RUN | rest | run, "steps": list(steps), "recovery": recovery}


CANCELLED = inspection(
    step("pause", "completed", kind="wait-until"),
    step("ask", "completed", "unanswered", "receipt-found"),
    step("refuse", "failed", "refused"),
    step("remind", "cancelled", "unanswered"),
    state="cancelled",
    uncertain=True,
)


def test_a_run_is_cancelled_with_a_reason_and_what_its_calls_came_to_is_shown(
    gatehouse: Command, folder: StateFolder, stand_in: StandIn
) -> None:
    stand_in.then = [json.dumps(CANCELLED).encode()]
    done = gatehouse("runs", "cancel", "x", "--reason", "mis-sent", "--state", folder.path, "--url", stand_in.url)
    assert done.returncode == 0
    assert [each.target for each in stand_in.seen] == ["/v1/runs/x/cancel", "/v1/runs/x/inspect"]
    assert stand_in.seen[0].body == b'{"reason":"mis-sent"}'
    assert [line.split(maxsplit=1) for line in done.stdout.splitlines()[-2:]] == [
        ["call", "ask: accepted"],
        ["call", "remind: perhaps accepted"],
    ]


def test_a_machine_is_told_of_the_calls_of_a_run_that_is_to_be_cancelled(
    gatehouse: Command, folder: StateFolder, stand_in: StandIn
) -> None:
    answer = inspection(step("remind", "running", "retryable", None), state="running", cancelRequested=True)
    stand_in.then = [json.dumps(answer).encode()]
    options = ["--reason", "mis-sent", "--url", stand_in.url, "--json"]
    told = json.loads(gatehouse("runs", "cancel", "x", "--state", folder.path, *options).stdout)
    run = answer["run"]
    assert isinstance(run, dict)
    assert told == run | {"calls": [{"step": "remind", "effect": "under way"}]}


def test_a_run_that_is_cancelled_before_any_call_has_none_that_was_accepted(
    gatehouse: Command, folder: StateFolder, stand_in: StandIn
) -> None:
    stand_in.body = json.dumps(inspection(step("remind", "cancelled", "refused"), state="cancelled")).encode()
    done = gatehouse("runs", "cancel", "x", "--reason", "mis-sent", "--state", folder.path, "--url", stand_in.url)
    assert done.stdout.splitlines()[-1].split(maxsplit=1) == ["call", "none was accepted"]


@pytest.mark.parametrize(
    ("arguments", "target", "body"),
    [
        (["retry", "a/b"], "/v1/runs/a%2Fb/retry-same", {"reason": "it is up"}),
        (["retry", "x", "--accept-repeat"], "/v1/runs/x/retry-same", {"reason": "it is up", "acceptRepeat": True}),
        (["reconcile", "x"], "/v1/runs/x/reconcile", {"reason": "it is up"}),
    ],
)
def test_an_uncertain_run_is_retried_and_reconciled_with_a_reason(
    gatehouse: Command,
    folder: StateFolder,
    stand_in: StandIn,
    arguments: list[str],
    target: str,
    body: dict[str, object],
) -> None:
    stand_in.body = json.dumps(RUN).encode()
    done = gatehouse("runs", *arguments, "--reason", "it is up", "--state", folder.path, "--url", stand_in.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[3].split() == ["state", "admitted"]
    (seen,) = stand_in.seen
    assert (seen.method, seen.target, json.loads(seen.body)) == ("POST", target, body)


def test_a_run_is_followed_to_its_end(gatehouse: Command, folder: StateFolder, stand_in: StandIn) -> None:
    stand_in.body = json.dumps(inspection(step("remind", "running", None), state="running")).encode()
    ended = inspection(step("remind", "completed", "completed"), state="completed", outcome="done", output={"a": 1})
    stand_in.then = [json.dumps(ended).encode()]
    done = gatehouse("runs", "show", "x", "--follow", "--state", folder.path, "--url", stand_in.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"run {RUN['runId']}: running at remind",
        "step remind (call): running",
        "  remind, attempt 1: under way",
        "  remind, attempt 1: completed",
        "step remind (call): completed",
        f'run {RUN["runId"]}: completed: done {{"a": 1}}',
    ]


def test_a_run_that_does_not_complete_ends_its_follower_with_1(
    gatehouse: Command, folder: StateFolder, stand_in: StandIn
) -> None:
    stand_in.body = json.dumps(inspection(state="failed", failureCode="deadline.passed")).encode()
    done = gatehouse("runs", "show", "x", "--follow", "--state", folder.path, "--url", stand_in.url, "--json")
    assert done.returncode == 1
    (told,) = map(json.loads, done.stdout.splitlines())
    assert (told["event"], told["state"], told["failureCode"]) == ("run", "failed", "deadline.passed")


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


def test_the_help_of_the_list_names_the_states_that_there_are() -> None:
    assert STATES.split(", ") == list(get_args(RunState))
