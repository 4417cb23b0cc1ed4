from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from handlers.steps.plan import Command
from tests.support.gatehouse import wait_for
from tests.support.processes import alive
from tests.tools.joiner import conftest
from tests.tools.joiner.conftest import HASTY, NODE, Signer
from tools.commands.terminal import RefusedError
from tools.joiner import planfile
from tools.joiner.course import TOKEN_VARIABLE, Course
from tools.joiner.folder import Batch, Join, Node, NodeFolder
from tools.joiner.founder import Founder
from tools.joiner.pin import JoinToken
from tools.joiner.planfile import PlanFile
from tools.joiner.progress import Progress

Go = Callable[..., None]
OTHER_ID = "01932c07-1111-7000-8000-000000000002"


def plan(**scripts: str) -> PlanFile:
    """A plan of shell scripts; `raft` is the step raft:control."""
    names = {"raft:control" if name == "raft" else name: script for name, script in scripts.items()}
    return PlanFile(
        {name: Command(("sh", "-c", script), 30) for name, script in names.items()},
        {name: f"plan.yaml:{number}:1" for number, name in enumerate(names, 1)},
    )


@pytest.fixture
def go(founder: conftest.Founder, folder: NodeFolder, signer: Signer) -> Go:
    """Goes the course in one process's life."""
    folder.trust(signer.pem.decode())

    def going(commands: PlanFile = planfile.EMPTY, token: JoinToken | None = signer.token) -> None:
        async def main() -> None:
            progress = Progress(machine=True)
            async with Founder(founder.url, folder, NODE, token, progress, pace=HASTY, reached=True) as asked:
                await Course(asked, folder, NODE, commands, progress, HASTY).run()

        asyncio.run(main())

    return going


def test_a_node_joins_by_the_steps_of_the_founder(
    founder: conftest.Founder, go: Go, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")
    go(
        plan(
            raft="env | grep ^GATEHOUSE_ | sort",
            services="echo up; env | grep -c ^GATEHOUSE_",
        )
    )
    assert founder.state == "joined"
    assert founder.steps == [
        (step, status) for step in ("raft:control", "services", "complete") for status in ("running", "done")
    ]
    assert founder.lines == [
        "GATEHOUSE_JOIN_ADDRESS=10.0.0.7",
        f"GATEHOUSE_JOIN_ID={founder.join_id}",
        "GATEHOUSE_JOIN_NAME=node-1",
        "GATEHOUSE_RAFT_NAME=control",
        "GATEHOUSE_RAFT_PEERS=founder=https://founder:2380,node-1=https://node-1:2380",
        "GATEHOUSE_RAFT_PEER_URLS=https://node-1:2380",
        "up",
        "3",
    ]
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["state"] for each in told if each["event"] == "state"] == ["joining", "joined"]
    assert [each["message"] for each in told if each["event"] == "line"] == founder.lines


def test_a_node_waits_until_its_turn_has_come(
    founder: conftest.Founder, go: Go, capsys: pytest.CaptureFixture[str]
) -> None:
    founder.state = "pending"

    def approve(_: str) -> bool:
        asked = [each for each in founder.seen if each.startswith("GET")]
        founder.state = {1: "pending", 2: "pending", 3: "approved"}.get(len(asked), founder.state)
        if len(asked) == 4:
            founder.state = "joining"
        return False

    founder.cuts_request = approve
    go()
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    states = [(each["state"], each["position"]) for each in told if each["event"] == "state"]
    assert states == [("pending", None), ("approved", 1), ("joining", 0), ("joined", None)]


def test_a_command_waits_until_its_node_is_where_it_needs_to_be(
    founder: conftest.Founder, go: Go, tmp_path: Path
) -> None:
    founder.plan = ("raft:control", "complete")
    take_step = founder.take_step
    ran: dict[str, str] = {}

    def slowly(step: str, status: str) -> None:
        take_step(step, status)
        ran[f"{step} {status}"] = founder.raft
        if status == "running":
            founder.raft = {"raft:control": "adding", "complete": "promoting"}[step]

    def change(name: str) -> bool:
        mark = tmp_path / founder.raft
        if founder.raft in ("adding", "promoting") and name.startswith("GET"):
            assert not (tmp_path / "ran").exists()
            if mark.exists():
                founder.raft = {"adding": "learner", "promoting": "voter"}[founder.raft]
                mark.rename(tmp_path / "seen")
            else:
                mark.touch()
        elif (tmp_path / "ran").exists():
            (tmp_path / "ran").unlink()
        return False

    founder.take_step = slowly  # type: ignore[method-assign] # a founder that takes its time
    founder.cuts_request = change
    go(plan(raft=f"touch {tmp_path}/ran", complete=f"touch {tmp_path}/ran"))
    assert ran["raft:control done"] == "learner"
    assert ran["complete done"] == "voter"


def test_a_step_that_fails_is_reported_with_its_reason_and_no_other_runs(founder: conftest.Founder, go: Go) -> None:
    with pytest.raises(RefusedError, match=r"^step services failed: sh ended with code 3$") as refused:
        go(plan(services="echo no; exit 3", complete="echo never"))
    assert founder.steps[-1] == ("services", "failed")
    assert founder.events[-1]["message"] == "sh ended with code 3"
    assert founder.lines == ["no"]
    assert refused.value.body == {
        "error": "join",
        "joinId": founder.join_id,
        "state": "failed",
        "failure": {"step": "services", "reason": "sh ended with code 3"},
        "detail": "step services failed: sh ended with code 3",
    }


def test_an_aborted_join_ends_the_command_that_runs(founder: conftest.Founder, go: Go, tmp_path: Path) -> None:
    def abort(_: str) -> bool:
        if "line" in founder.lines:
            founder.state, founder.failure = "failed", {"step": "services", "reason": "No use for it."}
        return False

    founder.cuts_request = abort
    with pytest.raises(RefusedError, match=r"^the join is failed at step services: No use for it\.$"):
        go(plan(services=f"echo $$ >{tmp_path}/pid; echo line; sleep 60"))
    wait_for(lambda: not alive(int((tmp_path / "pid").read_text())))
    assert founder.steps[-1] == ("services", "running")


@pytest.mark.parametrize("state", ["rejected", "expired"])
def test_a_join_that_ends_before_its_turn_is_told(founder: conftest.Founder, go: Go, state: str) -> None:
    founder.state, founder.failure = state, {"step": None, "reason": "Unknown machine."}
    with pytest.raises(RefusedError, match=f"^the join is {state}: Unknown machine"):
        go()
    assert founder.reports == []


def test_another_process_goes_on_where_the_first_was_ended(
    founder: conftest.Founder, folder: NodeFolder, go: Go
) -> None:
    with pytest.raises(RefusedError, match="disks is no step"):
        go(plan(disks="true"))
    founder.statuses = {"raft:control": "done", "services": "running"}
    founder.raft = "learner"
    left = Batch("left-1", '{"events":[{"type":"log","message":"left"}]}')
    folder.sending(left)
    go(plan(raft="echo again", services="echo once more"), token=None)
    assert founder.lines == ["left", "once more"]
    assert founder.steps == [
        ("services", "running"),
        ("services", "done"),
        ("complete", "running"),
        ("complete", "done"),
    ]
    assert len(founder.tokens) == 1


def test_a_process_whose_last_report_ended_the_join_finds_it_joined(
    founder: conftest.Founder, folder: NodeFolder, go: Go
) -> None:
    go()
    folder.sending(Batch(founder.reports[-1][0], founder.reports[-1][1].decode()))
    before = list(founder.reports)
    go(token=None)
    assert founder.reports == before


def test_a_token_that_is_new_begins_again_after_a_bad_end(
    founder: conftest.Founder, folder: NodeFolder, go: Go, signer: Signer
) -> None:
    founder.state = "failed"
    with pytest.raises(RefusedError, match=r"^the join is failed$"):
        go()
    with pytest.raises(RefusedError):
        go()
    answer = founder.answer

    def anew(method: str, target: str, headers: object, body: bytes) -> tuple[int, object]:
        if target.endswith("registrations"):
            founder.join_id, founder.state = OTHER_ID, "joining"
        return answer(method, target, headers, body)

    founder.answer = anew  # type: ignore[method-assign] # the join that is registered anew is another one
    go(token=JoinToken("another", signer.token.pin))
    join = folder.join()
    assert join is not None
    assert join.join_id == OTHER_ID
    assert founder.state == "joined"


def test_a_step_that_the_founder_does_not_plan_is_refused_before_the_turn(founder: conftest.Founder, go: Go) -> None:
    founder.state = "pending"
    with pytest.raises(RefusedError, match=r"plan\.yaml:1:1: disks is no step of this join"):
        go(plan(disks="true"))


def test_the_folder_of_another_node_is_refused(folder: NodeFolder, go: Go) -> None:
    go()
    join = folder.join()
    assert join is not None
    node = Node(name="node-2", role="compute", address="10.0.0.8", peer_urls=())
    folder.joined_as(Join(join_id=join.join_id, token=join.token, node=node))
    with pytest.raises(RefusedError, match="joins as node-2"):
        go()
