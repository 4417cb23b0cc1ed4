from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.support.effort import in_ci_alone
from tests.support.gatehouse import COMMAND, PATIENCE_SECONDS, Gatehouse, NewServer, wait_for
from tests.tools.commands.conftest import StandIn
from tools.commands import install
from tools.commands.terminal import RefusedError, StoppedError
from tools.state import StateFolder

NODE_YAML = """\
role: founder  # the first one
hostname: node-1.example
mgmt: {address: 192.0.2.11/24, gateway: 192.0.2.1}
links: [{interface: enp3s0}]
disks: [{device: /dev/sda, confirm: /dev/sda}]
network: {floatingIpCidrs: [198.51.100.0/24]}
"""
INSTALL: dict[str, Any] = {
    "attempt": 2,
    "state": "failed",
    "steps": [
        {"name": "a\x1b", "status": "failed", "startedAt": "2026-04-15T09:30:01.482Z", "endedAt": None},
        {"name": "b", "status": "waiting", "startedAt": None, "endedAt": None},
    ],
    "startedAt": "2026-04-15T09:30:01.482Z",
    "endedAt": None,
    "detail": "step a\x1b failed",
    "lastEventId": 9,
}

Operate: TypeAlias = Callable[..., Result]
Ask: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def operate(folder: StateFolder, stand_in: StandIn) -> Operate:
    """Runs a command against the stand-in."""

    def run(*arguments: str | Path, text: str = "") -> Result:
        options = ["--state", str(folder.path), "--url", stand_in.url]
        return CliRunner().invoke(install.app, [*map(str, arguments), *options], input=text)

    return run


@pytest.fixture(scope="module")
def machine(new_server: NewServer) -> Iterator[Gatehouse]:
    """A machine to install, whose plan a test may replace."""
    server = new_server(arguments=["--listener", "installer"])
    server.start()
    yield server
    server.ask_to_stop()


@pytest.fixture
def ask(machine: Gatehouse) -> Ask:
    """Runs `gatehouse install` on the machine."""

    def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        return machine.run("install", *arguments, "--state", str(machine.state), stdin=text)

    return run


def plan(server: Gatehouse, *scripts: str) -> None:
    steps = [{"name": f"step-{n}", "run": ["sh", "-c", each], "timeoutSeconds": 30} for n, each in enumerate(scripts)]
    (server.state / "install-plan.yaml").write_text(yaml.safe_dump({"steps": steps}))


def test_a_machine_is_configured_installed_and_followed(machine: Gatehouse, ask: Ask) -> None:
    too_early = ask("start")
    assert (too_early.returncode, too_early.stderr.splitlines()[2]) == (1, "  is not stored yet")
    faulty = NODE_YAML.replace("confirm: /dev/sda", "confirm: /dev/sdb").replace("198.51.100.0/24", "198.51.100.7/24")
    refused = ask("config", "put", "-", text=faulty)
    assert refused.returncode == 1
    told = refused.stderr.splitlines()
    assert told[0].startswith("gatehouse: INVALID_CONFIG (400)")
    assert [line.split(":")[0] for line in told[2:4]] == ["  disks[0].confirm", "  network.floatingIpCidrs[0]"]

    assert ask("config", "put", "-", text=NODE_YAML).stdout == "the config is stored\n"
    assert ask("config", "get").stdout == NODE_YAML
    assert json.loads(ask("config", "get", "--json").stdout) == yaml.safe_load(NODE_YAML)

    plan(machine, "printf 'one\\ntwo'", "true")
    installed = ask("start", "--watch")
    assert (installed.returncode, installed.stderr) == (0, "")
    assert installed.stdout.splitlines() == [
        *("step-0: started", "  step-0 | one", "  step-0 | two", "step-0: succeeded"),
        *("step-1: started", "step-1: succeeded", "attempt 1: succeeded"),
    ]
    assert ask("show").stdout.startswith("attempt 1: succeeded\n")

    plan(machine, "exit 3")
    failed = ask("start", "--watch", "--json")
    assert failed.returncode == 1
    assert [json.loads(line)["id"] for line in failed.stdout.splitlines()] == [8, 9, 10]
    again = ask("watch", "--json")
    assert again.returncode == 1
    events = [json.loads(line) for line in again.stdout.splitlines()]
    assert [event["id"] for event in events] == list(range(1, 11))
    assert [event["outcome"] for event in events if event["type"] == "verdict"] == ["succeeded", "failed"]


def test_a_wrong_code_or_authority_lets_nobody_in(machine: Gatehouse, ask: Ask, tmp_path: Path) -> None:
    wrong = ask("watch", "--code", "2222-2222")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "INSTALL_CODE_REFUSED (401)" in wrong.stderr
    other = StateFolder(tmp_path / "other")
    assert machine.run("init", "--state", str(other.path)).returncode == 0
    stranger = ask("watch", "--ca", str(other.authority_certificate))
    assert stranger.returncode == 3
    assert "CERTIFICATE_VERIFY_FAILED" in stranger.stderr


def test_whoever_has_address_code_and_authority_needs_no_state_folder(machine: Gatehouse, tmp_path: Path) -> None:
    ca = str(shutil.copy(machine.ca_file, tmp_path))
    elsewhere = ["--state", str(tmp_path / "nothing"), "--url", machine.installer, "--ca", ca]
    # The code comes as people type it.
    shown = machine.run("install", "show", *elsewhere, "--code", f" {machine.code.lower().replace('-', '')}", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["state"] in {"idle", "succeeded", "failed"}
    assert machine.run("install", "show", *elsewhere).returncode == 1


def test_the_code_never_goes_over_a_network_as_it_is(machine: Gatehouse) -> None:
    open_way = ["--url", "http://192.0.2.10:9443", "--code", machine.code]
    done = machine.run("install", "show", "--state", str(machine.state), *open_way)
    assert done.returncode == 2
    assert "must be https://HOST:PORT" in done.stderr


@in_ci_alone
def test_whoever_watches_hears_of_an_end_by_a_crash_from_the_next_server(first_state: Path, tmp_path: Path) -> None:
    state = shutil.copytree(first_state, tmp_path / "state")
    server = Gatehouse(state, arguments=["--listener", "installer"])
    with server:
        server.run("install", "config", "put", "-", "--state", str(state), stdin=NODE_YAML)
        plan(server, "while sleep 0.01; do echo x; done")
        server.run("install", "start", "--state", str(state))
        watching = subprocess.Popen(
            [COMMAND, "install", "watch", "--json", "--state", str(state)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=server.environment(),
        )
        assert watching.stdout is not None
        assert watching.stderr is not None
        first = [json.loads(watching.stdout.readline()) for _ in range(5)]
        address = server.installer.removeprefix("https://")
        server.kill()
        again = Gatehouse(
            state, arguments=["--listener", "installer"], environment={"GATEHOUSE_INSTALLER_BIND": address}
        )
        with again:
            # Not by `communicate`, which would pass over what was read ahead of the first lines.
            events = first + [json.loads(line) for line in watching.stdout]
            trouble = watching.stderr.read()
            watching.wait(PATIENCE_SECONDS)
    watching.stdout.close()
    watching.stderr.close()
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    assert (watching.returncode, events[-1]["outcome"]) == (1, "failed")
    assert trouble.splitlines()[-1] == "gatehouse: the connection is there again"


def test_a_signal_ends_watching_and_leaves_the_terminal_as_it_was(machine: Gatehouse, ask: Ask) -> None:
    ask("config", "put", "-", text=NODE_YAML)
    plan(machine, "echo begun; sleep 30")
    ask("start")
    shown, terminal = os.openpty()
    program = [sys.executable, "-m", "tools.cli", "install", "watch", "--state", str(machine.state)]
    environment = machine.environment() | {"TERM": "xterm"}
    watching = subprocess.Popen(program, stdout=terminal, stderr=subprocess.PIPE, text=True, env=environment)
    os.close(terminal)
    seen = b""

    def reads(wanted: bytes) -> bool:
        nonlocal seen
        try:
            seen += os.read(shown, 65_536)
        except OSError:
            # The other end is closed.
            return True
        return wanted in seen

    wait_for(lambda: reads(b"| begun"))
    watching.send_signal(signal.SIGTERM)
    _, told = watching.communicate(timeout=PATIENCE_SECONDS)
    assert (watching.returncode, told) == (1, f"gatehouse: {STOPPED}\n")
    wait_for(lambda: reads(b"nothing more"))
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")
    os.close(shown)
    assert "running" in ask("show").stdout


STOPPED = "stopped; the install goes on, and `gatehouse install watch` shows it again"


def test_the_latest_attempt_is_shown_without_what_a_terminal_would_obey(operate: Operate, stand_in: StandIn) -> None:
    stand_in.body = json.dumps(INSTALL).encode()
    done = operate("show")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["attempt", "2:", "failed", "(step", "a\ufffd", "failed)"],
        ["step", "status", "started", "ended"],
        ["a\ufffd", "failed", "2026-04-15T09:30:01.482Z", "-"],
        ["b", "waiting", "-", "-"],
    ]
    assert json.loads(operate("show", "--json").stdout) == INSTALL
    stand_in.body = json.dumps(INSTALL | {"attempt": 0, "steps": []}).encode()
    assert operate("show").stdout == "no attempt yet\n"


def test_an_attempt_is_started_with_the_code_of_the_folder_or_another(
    operate: Operate, stand_in: StandIn, folder: StateFolder
) -> None:
    stand_in.status, stand_in.body = 202, json.dumps(INSTALL).encode()
    assert operate("start").stdout == "attempt 2 has begun\n"
    assert json.loads(operate("start", "--json", "--code", "7F3K-9QPX").stdout) == INSTALL
    code = folder.install_code.read_text().strip()
    assert [(seen.method, seen.target, seen.headers["Authorization"]) for seen in stand_in.seen] == [
        ("POST", "/v1/installer/install", f"Bearer {code}"),
        ("POST", "/v1/installer/install", "Bearer 7F3K-9QPX"),
    ]


@pytest.mark.parametrize(
    ("name", "kind"), [("node.yaml", "application/yaml"), ("node", "application/yaml"), ("n.json", "application/json")]
)
def test_a_config_is_sent_as_it_is(operate: Operate, stand_in: StandIn, tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"\xff {}")
    assert operate("config", "put", tmp_path / name).stdout == "the config is stored\n"
    assert (stand_in.seen[0].method, stand_in.seen[0].body) == ("PUT", b"\xff {}")
    assert stand_in.seen[0].headers["Content-Type"] == kind


def test_a_machine_is_given_the_config_that_it_stored(operate: Operate, stand_in: StandIn) -> None:
    stand_in.body = b'{"role": "member"}'
    assert json.loads(operate("config", "put", "-", "--json", text="role: member").stdout) == {"role": "member"}
    assert [seen.method for seen in stand_in.seen] == ["PUT", "GET"]


def test_a_refusal_is_told(operate: Operate, stand_in: StandIn) -> None:
    stand_in.status, stand_in.headers = 429, {"Retry-After": "8"}
    stand_in.body = b'{"code":"INSTALL_CODE_LOCKED","title":"T","detail":"D","requestId":"r"}'
    for words in (["config", "get"], ["config", "put", "-"], ["start"], ["show"]):
        done = operate(*words)
        assert isinstance(done.exception, RefusedError)
        assert done.exception.detail == "INSTALL_CODE_LOCKED (429): T\n  D\n  try again in 8 s\n  trace id r"


@pytest.mark.parametrize("code", ["", " ", "7F3K\u20119QPX", "7F3K\n9QPX"])
def test_what_cannot_be_a_code_is_not_sent(operate: Operate, stand_in: StandIn, code: str) -> None:
    assert operate("show", "--code", code).exit_code == 2
    assert stand_in.seen == []


def test_an_authority_is_one_certificate(operate: Operate, stand_in: StandIn, folder: StateFolder) -> None:
    # Host names are not compared, and so a bundle would let in whoever has any certificate.
    for content in (folder.authority_certificate.read_bytes() * 2, b"", b"x"):
        file = folder.path / "authority.pem"
        file.write_bytes(content)
        done = operate("show", "--ca", file)
        assert isinstance(done.exception, RefusedError)
        assert str(done.exception) == f"{file} is not one certificate in PEM"
    assert stand_in.seen == []


def test_what_a_state_folder_lacks_is_told_with_the_option_for_it(
    operate: Operate, stand_in: StandIn, folder: StateFolder
) -> None:
    for file, option in ((folder.install_code, "--code"), (folder.authority_certificate, "--ca")):
        content = file.read_bytes()
        file.unlink()
        done = operate("show")
        assert isinstance(done.exception, RefusedError)
        assert done.exception.detail == f"{file} is not there; {option} stands in for it"
        file.write_bytes(content)
    assert stand_in.seen == []


def test_signals_are_as_before_once_nobody_watches() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(StoppedError), install._stoppable():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
