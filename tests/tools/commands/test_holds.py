from __future__ import annotations

import json

import pytest

from tests.tools.commands.conftest import Command, StandIn
from tools.state import StateFolder


@pytest.mark.parametrize(
    ("arguments", "target", "body"),
    [
        (["set", "--reason", "restore"], "/v1/restore-hold", {"reason": "restore"}),
        (["release-restore", "--reason", "done"], "/v1/release-restore-hold", {"reason": "done"}),
        (
            ["release-admission", "--reference", "INC-1", "--history-complete"],
            "/v1/release-admission-hold",
            {"recoveryReference": "INC-1", "admissionHistoryComplete": True, "priorDeploymentFenced": False},
        ),
    ],
)
def test_each_command_calls_its_operation_and_shows_both_holds(
    gatehouse: Command,
    folder: StateFolder,
    stand_in: StandIn,
    arguments: list[str],
    target: str,
    body: dict[str, object],
) -> None:
    stand_in.body = b'{"admissionHeld":true,"executionHeld":false}'
    done = gatehouse("holds", *arguments, "--state", folder.path, "--url", stand_in.url)
    assert (done.returncode, done.stdout) == (0, "admission held, execution open\n")
    assert (stand_in.seen[0].method, stand_in.seen[0].target) == ("POST", target)
    assert json.loads(stand_in.seen[0].body) == body


def test_the_holds_are_those_that_doctor_finds(gatehouse: Command, folder: StateFolder, stand_in: StandIn) -> None:
    stand_in.body = b'{"holds":{"admissionHeld":true,"executionHeld":true},"backlog":0}'
    done = gatehouse("holds", "show", "--state", folder.path, "--url", stand_in.url)
    assert (done.returncode, done.stdout) == (0, "admission held, execution held\n")
    assert (stand_in.seen[0].method, stand_in.seen[0].target) == ("GET", "/v1/doctor")
