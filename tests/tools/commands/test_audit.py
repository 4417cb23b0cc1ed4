from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.commands.conftest import Command


@pytest.fixture
def state(gatehouse: Command, tmp_path: Path) -> Path:
    path = tmp_path / "state"
    assert gatehouse("init", "--state", path).returncode == 0
    return path


def test_a_chain_that_holds_is_told_by_its_length(gatehouse: Command, state: Path) -> None:
    done = gatehouse("audit", "verify", "--state", state)
    assert (done.returncode, done.stdout) == (0, "1 row, 1 line, no faults\n")


def test_a_line_that_was_changed_is_told_by_its_row(gatehouse: Command, state: Path) -> None:
    file = state / "audit.jsonl"
    file.write_text(file.read_text().replace("local", "lokal"))
    done = gatehouse("audit", "verify", "--state", state)
    assert done.returncode == 1
    assert done.stdout == "local row 1: line changed\n1 row, 1 line, 1 fault\n"
    value = json.loads(gatehouse("audit", "verify", "--state", state, "--json").stdout)
    assert value == {"rows": 1, "lines": 1, "faults": [{"node": "local", "seq": 1, "what": "line changed"}]}


def test_nothing_is_mended_by_verifying(gatehouse: Command, state: Path) -> None:
    (state / "audit.jsonl").write_text("torn")
    assert gatehouse("audit", "verify", "--state", state).returncode == 1
    assert (state / "audit.jsonl").read_text() == "torn"


def test_a_database_that_is_not_there_is_unreachable(gatehouse: Command, state: Path) -> None:
    (state / "gatehouse.db").unlink()
    done = gatehouse("audit", "verify", "--state", state, "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]) == (3, "unreachable")
    assert f"{state}/gatehouse.db" in done.stderr
