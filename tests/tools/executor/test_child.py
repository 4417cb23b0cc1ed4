from __future__ import annotations

import json
import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.durability.executions import end as ended
from tests.durability.executions import executor
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import CARRIED_OUT, Gatehouse, NewServer, wait_for
from tests.support.packages import Workflow, connection, workflow
from tests.support.processes import alive
from tests.support.receivers import Receiver, Reply
from tools.executor.child import NICENESS, identity
from tools.state import SECRET, StateFolder

TELLING: Final = "telling"
RESULTS: Final = "SELECT result FROM attempts WHERE run_id = ?"


class World(NamedTuple):
    """A server with its executor, and whom its workflow calls."""

    server: Gatehouse
    receiver: Receiver

    @property
    def executor(self) -> int:
        """The executor's process, once there is one."""
        return int(wait_for(lambda: executor(self.server)))

    def begin(self, key: str) -> str:
        """Start a run that calls the receiver."""
        return self.server.begin({"flow": TELLING, "input": {"caseId": "C-1"}}, key).run


def telling() -> Workflow:
    made = workflow(TELLING, connection="receiver", triggers=())
    made["steps"]["pause"]["until"] = "timestamp(run.admittedAt)"
    return made


@pytest.fixture(scope="module")
def world(new_server: NewServer) -> Iterator[World]:
    with Receiver() as receiver:
        server = new_server(environment=CARRIED_OUT)
        server.configure(connections={"receiver": connection(receiver.url) | {"recovery": "same-command"}})
        server.apply(telling())
        with server:
            yield World(server, receiver)


def test_an_admitted_run_is_carried_out_by_a_process_that_stands_back(world: World) -> None:
    assert ended(world.server, world.begin("first"))["outcome"] == "followed-up"
    process = world.executor
    own = os.getpriority(os.PRIO_PROCESS, world.server.pid)
    back = min(own + NICENESS, 19)
    assert os.getpriority(os.PRIO_PROCESS, process) == back
    # All but the thread that writes.
    threads = [os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in Path(f"/proc/{process}/task").iterdir()]
    assert own in threads
    assert threads.count(back) > len(threads) / 2
    # A terminal sends its signals to none but the server.
    assert os.getsid(process) == process


@in_ci_alone
def test_one_that_was_killed_in_a_call_is_started_again_and_sends_the_same_command(world: World) -> None:
    before, world.receiver.answer = world.receiver.answer, lambda _: Reply(late=True)
    run = world.begin("killed")
    [sent] = world.receiver.wait_for(1, lambda received: received.key == f"{run}.tell")
    killed = world.executor
    world.receiver.answer = before
    os.kill(killed, signal.SIGKILL)
    assert ended(world.server, run)["outcome"] == "followed-up"
    assert {received.command for received in world.receiver.by_key[f"{run}.tell"]} == {sent.command}
    assert world.executor != killed
    assert "the executor has ended" in world.server.log


@in_ci_alone
def test_an_executor_ends_with_a_server_that_was_killed_and_the_next_one_waits_for_that(world: World) -> None:
    orphan = world.executor
    os.kill(orphan, signal.SIGSTOP)
    world.server.kill()
    world.server.start()
    run = world.begin("orphaned")
    assert world.executor != orphan
    assert alive(orphan)
    os.kill(orphan, signal.SIGCONT)
    wait_for(lambda: not alive(orphan))
    assert ended(world.server, run)["outcome"] == "followed-up"


def test_all_that_it_logs_is_lines_of_the_servers_log(world: World) -> None:
    lines = [json.loads(line) for line in world.server.log.splitlines()]
    assert {line["event"] for line in lines} <= {"request", "gatehouse.executor", "gatehouse.coordinator"}


@in_ci_alone
def test_a_store_of_the_engine_that_is_damaged_while_it_is_used_is_made_anew(world: World) -> None:
    damaged = world.executor
    for file in world.server.state.glob("engine.db*"):
        with file.open("r+b") as opened:
            opened.write(os.urandom(file.stat().st_size))
    assert ended(world.server, world.begin("damaged"))["outcome"] == "followed-up"
    assert world.executor != damaged


def test_a_server_that_stops_takes_its_executor_with_it_once_the_call_under_way_is_answered(world: World) -> None:
    answered = threading.Event()
    world.receiver.answer = lambda _: Reply(after=answered)
    run = world.begin("stopped")
    world.receiver.wait_for(1, lambda received: received.key == f"{run}.tell")
    stopped = world.executor
    world.server.ask_to_stop()
    answered.set()
    assert world.server.stop() == 0
    assert not alive(stopped)
    with world.server.database() as database:
        assert database.execute(RESULTS, (run.replace("-", ""),)).fetchall() == [("completed",)]


def test_executors_of_two_folders_have_different_names_whatever_their_node_is(tmp_path: Path) -> None:
    folders = [StateFolder(tmp_path / name) for name in ("a", "b")]
    for folder in folders:
        folder.path.mkdir()
    first, second = [identity(folder) for folder in folders]
    assert first != second
    assert identity(folders[0]) == first
    for broken in (b"", b"\xff\n", first.encode() * 2):
        folders[0].executor_id.write_bytes(broken)
        assert identity(folders[0]) not in {"", first}
    assert stat.S_IMODE(folders[0].executor_id.stat().st_mode) == SECRET


def test_runs_are_carried_out_where_they_are_admitted_and_nowhere_else(
    server: Gatehouse, new_server: NewServer
) -> None:
    with new_server(arguments=["--recovery-only"], environment=CARRIED_OUT) as recovering:
        for each in (recovering, server):
            assert each.send("GET", "/health").status == 200
            assert executor(each) is None


@in_ci_alone
def test_what_keeps_it_from_starting_is_told(new_server: NewServer) -> None:
    with new_server(environment=CARRIED_OUT) as server:
        server.configure(node="A B")
        os.kill(wait_for(lambda: executor(server)), signal.SIGKILL)
        wait_for(lambda: "the executor cannot start" in server.log)
