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


def demo(state: Path) -> Path:
    return state / "workflows" / "case-follow-up.yaml"


def change(state: Path, old: str, new: str) -> None:
    text = demo(state).read_text()
    assert old in text
    demo(state).write_text(text.replace(old, new))


def test_a_package_without_a_fault_passes(gatehouse: Command, state: Path) -> None:
    done = gatehouse("workflows", "check", state / "workflows")
    assert (done.returncode, done.stdout) == (0, f"{state}/workflows is a package\n")
    assert json.loads(gatehouse("workflows", "check", state / "workflows", "--json").stdout) == {"findings": []}


def test_every_fault_is_told_by_file_line_and_column(gatehouse: Command, state: Path) -> None:
    change(state, "next: done", "next: nowhere")
    line = demo(state).read_text().partition("nowhere")[0].count("\n") + 1
    done = gatehouse("workflows", "check", state / "workflows")
    assert done.returncode == 1
    assert done.stdout.startswith(f"{demo(state)}:{line}:")
    (finding, *_) = json.loads(gatehouse("workflows", "check", state / "workflows", "--json").stdout)["findings"]
    assert (finding["file"], finding["line"]) == (str(demo(state)), line)


def test_a_new_version_becomes_the_active_package_and_the_old_one_stays_listed(gatehouse: Command, state: Path) -> None:
    change(state, 'version: "1"', 'version: "2"')
    applied = gatehouse("workflows", "apply", state / "workflows", "--state", state, "--json")
    assert applied.returncode == 0
    listed = json.loads(gatehouse("workflows", "list", "--state", state, "--json").stdout)["packages"]
    assert [(each["active"], each["workflows"][0]["version"]) for each in listed] == [(True, "2"), (False, "1")]
    assert listed[0]["digest"] == json.loads(applied.stdout)["digest"]
    lines = gatehouse("workflows", "list", "--state", state).stdout.splitlines()
    assert [("active" in line, line.rstrip()[-1]) for line in lines[1:]] == [(True, "2"), (False, "1")]


def test_a_version_that_stood_for_something_else_is_refused_unless_forced(gatehouse: Command, state: Path) -> None:
    change(state, "deadlineSeconds: 86400", "deadlineSeconds: 60")
    refused = gatehouse("workflows", "apply", state / "workflows", "--state", state, "--json")
    assert refused.returncode == 1
    assert "case-follow-up version 1" in refused.stderr
    assert "with --force: events of this workflow are then refused with definition.refused" in refused.stderr
    assert [each["id"] for each in json.loads(refused.stdout)["definitions"]] == ["case-follow-up"]
    forced = gatehouse("workflows", "apply", state / "workflows", "--state", state, "--force")
    assert forced.returncode == 0
    first, second = forced.stdout.splitlines()
    assert " is active since 20" in first
    assert "409 deployment.activation-changed once" in second


@pytest.mark.parametrize("command", ["check", "apply"])
def test_help_says_where_the_format_is_documented(gatehouse: Command, command: str) -> None:
    assert "handlers/coordinator/workflows/format.py" in gatehouse("workflows", command, "--help").stdout


def test_what_is_no_package_is_not_applied(gatehouse: Command, state: Path) -> None:
    change(state, "start: pause", "start: nowhere")
    done = gatehouse("workflows", "apply", state / "workflows", "--state", state, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "package"
    assert f"{demo(state)}:" in done.stderr


def test_a_folder_that_is_not_there_is_told(gatehouse: Command, state: Path) -> None:
    done = gatehouse("workflows", "apply", "none", "--state", state)
    assert done.returncode == 1
    assert "none:1:1: cannot be read: No such file or directory" in done.stderr
