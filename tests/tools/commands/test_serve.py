from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.gatehouse import FREE_PORTS, NOT_CARRIED_OUT, Gatehouse
from tests.tools.commands.conftest import GATEHOUSE, Command
from tools.state import StateFolder


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    return tmp_path / "empty"


@pytest.fixture
def state(first_state: Path, tmp_path: Path) -> Path:
    """A folder as `gatehouse init` makes it."""
    return shutil.copytree(first_state, tmp_path / "state")


def test_an_empty_place_becomes_a_folder_that_is_served_until_sigterm(empty: Path) -> None:
    server = Gatehouse(empty)
    server.start()
    assert httpx.get(f"{server.control}/health").json() == {"live": True}
    assert (empty / "lock.control").read_text() == f"{server.control}\n"
    assert server.stop() == 0
    assert (empty / "lock.control").read_text() == ""
    assert (empty / "gatehouse.yaml").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_as_soon_as_it_is_announced_ends_a_server_in_order(state: Path, number: signal.Signals) -> None:
    server = Gatehouse(state)
    server.start()
    assert server.stop(number) == 0


def test_a_machine_gets_one_line_that_says_where_things_are(state: Path, environment: dict[str, str]) -> None:
    command = [GATEHOUSE, "serve", "--state", "state", "--json"]
    variables = environment | FREE_PORTS | NOT_CARRIED_OUT
    with subprocess.Popen(
        command, cwd=state.parent, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        server.terminate()
        assert server.stdout.read() == ""
    assert told == {
        "listeners": {name: told["listeners"][name] for name in ("control", "installer", "join")},
        "state": str(state),
        "operatorToken": str(state / "operator.token"),
        "installCode": str(state / "install.code"),
        "demoKey": str(state / "sources" / "demo.key"),
        "caFile": str(state / "ca" / "ca.pem"),
    }


def test_a_person_is_told_where_things_are(state: Path, environment: dict[str, str]) -> None:
    variables = environment | FREE_PORTS | NOT_CARRIED_OUT
    with subprocess.Popen(
        [GATEHOUSE, "serve", "--state", state],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(8)]
        server.terminate()
    assert lines[0].startswith("control         http://127.0.0.1:")
    assert lines[1].startswith("installer       https://127.0.0.1:")
    assert lines[2].startswith("join            https://127.0.0.1:")
    files = [state / name for name in ("operator.token", "install.code", "sources/demo.key", "ca/ca.pem")]
    assert [line.split()[-1] for line in lines[3:]] == [str(path) for path in (state, *files)]


def test_one_server_serves_a_listener_from_a_folder(state: Path) -> None:
    with Gatehouse(state) as first:
        for chosen, served in [((), "control"), (("--listener", "join"), "join")]:
            second = first.run("serve", "--state", str(state), "--json", *chosen)
            assert second.returncode == 1
            assert f"another server serves the {served} listener from" in json.loads(second.stdout)["detail"]


def test_a_server_that_was_killed_leaves_the_folder_free(state: Path) -> None:
    server = Gatehouse(state)
    server.start()
    server.kill()
    server.start()
    assert httpx.get(f"{server.control}/ready").json() == {"ready": True}
    server.stop()


def test_an_address_that_is_taken_is_told_by_its_setting(gatehouse: Command, state: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        done = gatehouse("serve", "--state", state, GATEHOUSE_CONTROL_BIND=bind)
    assert (done.returncode, done.stderr) == (1, f"gatehouse: control.bind {bind}: Address already in use\n")


def test_a_name_that_is_no_address_is_told_by_its_setting(gatehouse: Command, state: Path) -> None:
    done = gatehouse("serve", "--state", state, GATEHOUSE_CONTROL_BIND="nowhere.invalid:80")
    assert done.returncode == 1
    assert done.stderr.startswith("gatehouse: control.bind nowhere.invalid:80: ")


def test_a_bad_setting_is_refused_by_its_name_and_nothing_is_made(gatehouse: Command, empty: Path) -> None:
    done = gatehouse("serve", "--state", empty, GATEHOUSE_CONTROL_BIND="8080", GATEHOUSE_NOD="x")
    assert done.returncode == 1
    assert "GATEHOUSE_CONTROL_BIND must be HOST:PORT" in done.stderr
    assert "GATEHOUSE_NOD is not a setting (did you mean GATEHOUSE_NODE?)" in done.stderr
    assert not empty.exists()


def test_a_folder_without_its_token_is_refused_by_the_files_name(gatehouse: Command, state: Path) -> None:
    (state / "operator.token").unlink()
    done = gatehouse("serve", "--state", state, "--listener", "control", GATEHOUSE_CONTROL_BIND="127.0.0.1:0")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"gatehouse: {state}/operator.token: No such file or directory" in done.stderr


def test_a_token_that_is_empty_is_refused(gatehouse: Command, state: Path) -> None:
    (state / "operator.token").write_text("\n")
    done = gatehouse("serve", "--state", state, "--listener", "control", GATEHOUSE_CONTROL_BIND="127.0.0.1:0")
    assert done.returncode == 1
    assert "operator.token is empty" in done.stderr


def test_served_for_recovery_alone_it_admits_nothing_new(state: Path) -> None:
    with Gatehouse(state, arguments=["--recovery-only"]) as server:
        done = server.run("event", "send", "--state", str(state), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["deliveries"][0]["problem"]["code"] == "admission.recovery-only"


def test_the_commands_beside_a_server_work_without_being_told_where_it_is(state: Path) -> None:
    with Gatehouse(state) as server:
        at = ("--state", str(state), "--json")
        sent = json.loads(server.run("event", "send", "--repeat", "1", *at).stdout)
        (run,) = {each["runId"] for each in sent["deliveries"]}
        (listed,) = json.loads(server.run("runs", "list", *at).stdout)["runs"]
        assert (listed["runId"], listed["workflowId"], listed["state"]) == (run, "case-follow-up", "admitted")
        assert json.loads(server.run("runs", "show", run, *at).stdout)["run"] == listed
        cancelled = json.loads(server.run("runs", "cancel", run, "--reason", "A test wants it.", *at).stdout)
        assert cancelled["cancelRequested"]
        assert json.loads(server.run("holds", "set", "--reason", "A test.", *at).stdout)["admissionHeld"]
        assert server.run("event", "send", *at).returncode == 1
        assert json.loads(server.run("audit", "verify", *at).stdout)["faults"] == []


def test_a_key_that_was_just_made_signs_events_of_a_running_server(state: Path) -> None:
    with Gatehouse(state) as server:
        folder = StateFolder(state)
        assert server.run("sources", "add", "case-follow-up", "case-created", "--state", str(state)).returncode == 0
        key = folder.sources / "case-follow-up--case-created.key"
        folder.demo_key.rename(folder.sources / "old.key")
        assert server.run("event", "send", "--state", str(state), "--key-file", str(key)).returncode == 1
        (folder.sources / "old.key").rename(folder.demo_key)
        assert server.run("event", "send", "--state", str(state), "--key-file", str(key)).returncode == 0
