from __future__ import annotations

import json
from typing import Any

import pytest

from tools.joiner.progress import Progress

ID = "01932c07-1111-7000-8000-000000000001"


def registration(state: str, position: int | None = None, raft: str = "absent", error: str | None = None) -> Any:
    failure = {"step": "services", "reason": "no\nroom"} if state == "failed" else None
    rafts = [{"name": "control", "state": raft, "error": error}]
    return {"joinId": ID, "state": state, "position": position, "rafts": rafts, "failure": failure}


def tell(progress: Progress) -> None:
    for now in (
        registration("pending"),
        registration("pending"),
        registration("approved", 2),
        registration("approved", 1),
        registration("joining", 0, "adding", "not healthy"),
        registration("joining", 0, "learner"),
        registration("failed"),
    ):
        progress.state(now)
        progress.rafts(now)


def test_a_person_is_told_each_change_once(capsys: pytest.CaptureFixture[str]) -> None:
    tell(Progress(machine=False))
    assert capsys.readouterr().out.splitlines() == [
        f"join {ID}: waits for an operator's approval",
        f"join {ID}: approved, number 2 in line",
        f"join {ID}: approved, number 1 in line",
        f"join {ID}: its turn has come",
        "raft control: adding (not healthy)",
        "raft control: learner",
        f"join {ID}: failed at step services (no room)",
    ]


def test_a_machine_is_told_the_same_as_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(machine=True)
    tell(progress)
    progress.step("services", "running", None)
    progress.line("services", "é", {"seq": 7})
    progress.dropped(3)
    values = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert values[1] == {"event": "state", "joinId": ID, "state": "approved", "position": 2, "failure": None}
    assert values[4] == {"event": "raft", "raft": "control", "state": "adding", "error": "not healthy"}
    assert values[-3:] == [
        {"event": "step", "step": "services", "status": "running", "message": None},
        {"event": "line", "step": "services", "message": "é", "seq": 7},
        {"event": "dropped", "lines": 3},
    ]


def test_trouble_is_told_when_it_comes_and_when_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(machine=False)
    for detail in (None, "no answer", "no answer either", None, None):
        progress.trouble(detail)
    assert capsys.readouterr().out == "no answer; trying again\nthe connection is there again\n"


def test_what_a_terminal_would_obey_stays_a_line_of_its_step(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(machine=False)
    progress.line("services", "a\x1b[2Jb\njoin x: joined")
    progress.line(None, "")
    progress.step("services", "failed", "\x1b]0;x\x07\njoin y: joined")
    assert capsys.readouterr().out.splitlines() == [
        "  services | a\ufffd[2Jb",
        "  services | join x: joined",
        "  - | ",
        "services: failed (\ufffd]0;x\ufffd join y: joined)",
    ]
