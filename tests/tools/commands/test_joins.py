from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from typer.testing import CliRunner, Result

from tests.tools.commands.conftest import StandIn
from tools.commands import joins
from tools.commands.client import Client
from tools.commands.terminal import RefusedError, UnreachableError
from tools.joiner.progress import Progress
from tools.state import StateFolder

ID = "01932c07-1111-7000-8000-000000000001"
REGISTRATION: dict[str, Any] = {
    "joinId": ID,
    "name": "node-\x1b1",
    "role": "compute",
    "address": "10.20.0.7",
    "state": "approved",
    "position": 2,
    "plan": ["raft:control", "services"],
    "steps": [],
    "rafts": [],
    "registeredAt": "2026-04-15T09:30:01.482Z",
    "failure": None,
}


Operate: TypeAlias = Callable[..., Result]


@pytest.fixture
def operate(folder: StateFolder, stand_in: StandIn) -> Operate:
    """Runs a command of the operator's against the stand-in."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(joins.app, [*arguments, "--state", str(folder.path), "--url", stand_in.url])

    return run


def test_a_token_is_shown_with_the_command_for_the_node(operate: Operate, stand_in: StandIn) -> None:
    token = {"tokenId": "t-1", "token": "secret.pin", "caFingerprint": "sha256:00", "expiresAt": "2026-04-15T09:30Z"}
    stand_in.body = json.dumps(token).encode()
    done = operate("token", "--ttl", "60", "--name", "rack 7")
    assert done.stdout.splitlines() == [
        "token t-1, good for one node until 2026-04-15T09:30Z; on that node:",
        "GATEHOUSE_JOIN_TOKEN=secret.pin gatehouse join --founder https://127.0.0.1:8443"
        " --name NAME --role compute --address ADDRESS",
    ]
    assert (stand_in.seen[0].method, stand_in.seen[0].target) == ("POST", "/v1/join/tokens")
    assert json.loads(stand_in.seen[0].body) == {"ttlSeconds": 60, "name": "rack 7"}
    machine = json.loads(operate("token", "--json").stdout)
    assert machine == token | {"founder": "https://127.0.0.1:8443"}


def test_a_token_is_taken_back(operate: Operate, stand_in: StandIn) -> None:
    stand_in.status = 204
    done = operate("token", "--revoke", "t/1")
    assert (done.exit_code, done.stdout) == (0, "revoked t/1\n")
    assert (stand_in.seen[0].method, stand_in.seen[0].target) == ("DELETE", "/v1/join/tokens/t%2F1")


def test_a_token_that_is_not_there_is_not_taken_back(operate: Operate, stand_in: StandIn) -> None:
    stand_in.status, stand_in.body = 404, b'{"code":"NOT_FOUND","title":"There is nothing here","detail":"No."}'
    done = operate("token", "--revoke", "t-1")
    assert isinstance(done.exception, RefusedError)
    assert done.exception.detail.startswith("NOT_FOUND (404)")


def test_joins_are_listed_without_what_a_terminal_would_obey(operate: Operate, stand_in: StandIn) -> None:
    stand_in.body = json.dumps({"registrations": [REGISTRATION]}).encode()
    done = operate("list", "--limit", "5", "--join-state", "approved")
    assert done.stdout.splitlines()[1].split() == [
        *(ID, "node-\ufffd1", "compute", "10.20.0.7", "approved", "2", "2026-04-15T09:30:01.482Z")
    ]
    assert stand_in.seen[0].target == "/v1/join/registrations?limit=5&state=approved"


@pytest.mark.parametrize("arguments", [["list", "--join-state", "gone"], ["approve", ID, "--role", "gone"]])
def test_a_word_that_the_document_lacks_is_told_with_those_that_it_has(
    operate: Operate, stand_in: StandIn, arguments: list[str]
) -> None:
    done = operate(*arguments)
    assert done.exit_code == 2
    assert "is not one of" in done.stderr
    assert stand_in.seen == []


@pytest.mark.parametrize(
    ("arguments", "target", "body"),
    [
        (["approve", ID], "approve", b""),
        (["approve", ID, "--role", "compute", "--address", "a"], "approve", b'{"role":"compute","address":"a"}'),
        (["reject", ID, "--reason", "unknown"], "reject", b'{"reason":"unknown"}'),
    ],
)
def test_a_join_is_decided_about(
    operate: Operate, stand_in: StandIn, arguments: list[str], target: str, body: bytes
) -> None:
    stand_in.body = json.dumps(REGISTRATION).encode()
    done = operate(*arguments)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[4].split() == ["state", "approved"]
    assert (stand_in.seen[0].target, stand_in.seen[0].body) == (f"/v1/join/registrations/{ID}/{target}", body)


class Asked(Client):
    """A client whose server answers what a test has."""

    def __init__(self) -> None:
        self.registration = REGISTRATION | {"state": "joining", "position": 0}
        self.lines: list[dict[str, Any]] = []
        self.fault: Exception | None = None

    def step(self, step: str, status: str, message: str | None = None) -> None:
        self.registration["steps"] = [
            *(each for each in self.registration["steps"] if each["step"] != step),
            {"step": step, "status": status, "message": message},
        ]

    def line(self, seq: int, step: str | None, message: str) -> None:
        self.lines.append({"seq": seq, "at": "t", "step": step, "message": message})

    def ask(self, method: str, target: str, **options: Any) -> Any:
        if self.fault:
            raise self.fault
        assert method == "GET"
        if not target.endswith("/log"):
            return self.registration
        after = options["params"]["after"]
        return {"lines": [line for line in self.lines if line["seq"] > after][:2], "dropped": 0}


def test_steps_and_lines_are_told_once_and_in_the_order_in_which_they_came(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = Asked()
    story = joins._Story(asked, ID, Progress(machine=False))
    asked.step("raft:control", "running")
    asked.step("services", "waiting")
    asked.line(1, "raft:control", "starting")
    story.tell()
    asked.step("raft:control", "done", "in sync")
    asked.step("services", "failed", "no room")
    for seq in (2, 3, 4):
        asked.line(seq, "raft:control", f"r{seq}")
    asked.line(9, "services", "s9")
    asked.line(10, None, "free")
    asked.line(11, "disks", "unplanned")
    asked.registration |= {"state": "failed", "position": None, "failure": {"step": "services", "reason": "no room"}}
    story.tell()
    story.tell()
    assert capsys.readouterr().out.splitlines() == [
        f"join {ID}: its turn has come",
        "raft:control: running",
        "  raft:control | starting",
        "  raft:control | r2",
        "  raft:control | r3",
        "  raft:control | r4",
        "  … 4 lines are not kept any more",
        "raft:control: done (in sync)",
        "services: running",
        "  services | s9",
        "  - | free",
        "  disks | unplanned",
        "services: failed (no room)",
        f"join {ID}: failed at step services (no room)",
    ]


def test_a_machine_is_told_of_each_line_when_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    asked = Asked()
    asked.line(1, None, "é\x00")
    joins._Story(asked, ID, Progress(machine=True)).tell()
    assert json.loads(capsys.readouterr().out.splitlines()[1]) == {
        "event": "line",
        "step": None,
        "message": "é\x00",
        "seq": 1,
        "at": "t",
    }


def test_who_follows_waits_for_a_server_that_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    asked = Asked()
    story = joins._Story(asked, ID, Progress(machine=False))
    before = story.tell()
    for fault in (UnreachableError("no answer"), RefusedError("UNAVAILABLE (503): Later\n  so", {"status": 503})):
        asked.fault = fault
        assert story.go_on(before) is before
        asked.fault = None
        story.go_on(before)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "no answer; trying again",
        "the connection is there again",
        "UNAVAILABLE (503): Later; trying again",
        "the connection is there again",
    ]
    asked.fault = RefusedError("gone", {"status": 404})
    with pytest.raises(RefusedError):
        story.go_on(before)


@pytest.mark.parametrize(("state", "code"), [("joined", 0), ("failed", 1), ("rejected", 1)])
def test_who_follows_to_the_end_learns_by_the_exit_code_whether_the_node_joined(
    operate: Operate, stand_in: StandIn, state: str, code: int
) -> None:
    stand_in.body = json.dumps(REGISTRATION | {"state": state, "lines": []}).encode()
    done = operate("log", ID, "--follow")
    assert (done.exit_code, done.stdout) == (code, f"join {ID}: {state}\n")
