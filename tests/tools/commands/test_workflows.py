from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from handlers.coordinator import workflows
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


def test_who_applies_is_told_what_is_gone_and_what_the_settings_do_not_permit(gatehouse: Command, state: Path) -> None:
    change(state, "id: case-follow-up", "id: follow-up")
    change(state, "path: /notices", "path: /letters")
    done = gatehouse("workflows", "apply", state / "workflows", "--state", state)
    assert done.returncode == 0
    gone, lacking = done.stdout.splitlines()[2:]
    assert gone == "case-follow-up is not in it: its runs go on, and no other starts"
    assert lacking.startswith("follow-up starts no run: demo-receiver does not permit POST /letters, under connections")
    again = json.loads(gatehouse("workflows", "apply", state / "workflows", "--state", state, "--json").stdout)
    call = {"workflow": "follow-up", "connection": "demo-receiver", "method": "POST", "path": "/letters"}
    assert (again["gone"], again["unpermitted"]) == ([], [call])


def test_the_demo_comes_with_its_scenarios(gatehouse: Command, state: Path) -> None:
    done = gatehouse("workflows", "test", state / "workflows")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "5 scenarios passed")


@pytest.mark.parametrize(("command", "where"), [("check", "workflows"), ("apply", "workflows"), ("test", "scenarios")])
def test_help_says_where_the_format_is_documented(gatehouse: Command, command: str, where: str) -> None:
    assert f"handlers/coordinator/{where}/format.py" in gatehouse("workflows", command, "--help").stdout


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The demo package, without its own scenarios."""
    shipped = Path(workflows.__file__).parent / "demo"
    return Path(shutil.copytree(shipped, tmp_path / "package", ignore=shutil.ignore_patterns("scenarios")))


def put(package: Path, name: str, text: str) -> Path:
    (package / "scenarios").mkdir(exist_ok=True)
    file = package / "scenarios" / name
    file.write_text(text)
    return file


SCENARIO = """\
name: a notice that is refused ends the run
input: {caseId: C-1}
replies: {notify: [{status: 400}]}
expect: {state: failed, failureCode: call.refused}
"""


def test_scenarios_that_do_what_they_expect_pass(gatehouse: Command, package: Path) -> None:
    put(package, "refused.yaml", SCENARIO)
    done = gatehouse("workflows", "test", package)
    assert (done.returncode, done.stdout) == (
        0,
        "ok    a notice that is refused ends the run\nno scenario of case-follow-up comes to done\n1 scenario passed\n",
    )


def test_a_scenario_that_comes_out_otherwise_fails_the_command_and_tells_both(
    gatehouse: Command, package: Path
) -> None:
    put(package, "a.yaml", SCENARIO)
    file = put(package, "b.yaml", SCENARIO.replace("400", "201"))
    done = gatehouse("workflows", "test", package)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "ok    a notice that is refused ends the run",
        f"FAIL  a notice that is refused ends the run ({file})",
        '      failureCode: expected "call.refused"',
        '                   got      "mapping.failed"',
        "      it came to failed (mapping.failed) after 5 s, by pause, notify, done",
        "1 of 2 scenarios failed",
    ]
    told = json.loads(gatehouse("workflows", "test", package, "--json").stdout)
    assert [each["passed"] for each in told["scenarios"]] == [True, False]
    assert told["unreached"] == {}
    assert told["scenarios"][1]["differences"][0] == {
        "member": "failureCode",
        "expected": "call.refused",
        "got": "mapping.failed",
    }


def test_what_is_wrong_with_a_scenario_is_told_by_file_line_and_column(gatehouse: Command, package: Path) -> None:
    file = put(package, "a.yaml", SCENARIO.replace("notify", "tell"))
    done = gatehouse("workflows", "test", package, "--json")
    assert done.returncode == 1
    assert f"{file}:3:11: replies.tell: the workflow has no call of this name" in done.stderr
    told = json.loads(done.stdout)
    assert (told["error"], told["findings"][0]["line"]) == ("scenarios", 3)


def test_a_package_is_explained_with_what_the_settings_say_of_its_connections(
    gatehouse: Command, package: Path
) -> None:
    plain = gatehouse("workflows", "explain", package).stdout
    assert plain.startswith("case-follow-up, version 1: a run takes 1 day at most\n")
    assert "  2. notify: sends POST /notices to demo-receiver\n" in plain
    assert "not answered" not in plain
    settings = package / "settings"
    settings.write_text(
        "connections:\n  demo-receiver: {baseUrl: https://example.org, methods: [POST], recovery: same-command}\n"
    )
    configured = gatehouse("workflows", "explain", package, "--config", settings).stdout
    assert "     not answered: the same command is sent again\n" in configured
    [read] = json.loads(gatehouse("workflows", "explain", package, "--json").stdout)["workflows"]
    assert [each["step"] for each in read["steps"]] == ["pause", "notify", "done"]


def test_a_package_is_drawn(gatehouse: Command, package: Path) -> None:
    drawn = gatehouse("workflows", "explain", package, "--mermaid").stdout
    assert drawn.startswith("flowchart TD\n")
    assert drawn.endswith("  s1 --> s2\n  s2 --> s3\n")


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
