from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.durability.executions import call, connection, end, kill_executor, start, workflow
from tests.support import packages
from tests.support.gatehouse import CARRIED_OUT, Gatehouse, NewServer, wait_for
from tests.support.packages import Workflow
from tests.support.receivers import Received, Receiver, Reply, of_json

NAME: Final = "edited"


def edition(version: str, outcome: str, said: str) -> Workflow:
    """One version of a workflow that asks, tells what it says, and ends."""
    steps = {
        "ask": call("states", "GET", "'states'", "tell"),
        "tell": call("notices", "POST", "'notices'", "done", {"said": f"'{said}'"}),
        "done": {"type": "finish", "outcome": outcome, "output": {"asked": "steps.ask.body"}},
    }
    return workflow(NAME, steps, version=version)


@dataclass(frozen=True)
class World:
    """A server, and who it calls; each question below `/states/` is answered once `told` is set."""

    server: Gatehouse
    receiver: Receiver
    told: threading.Event

    def begin(self, name: str) -> str:
        """Start a run and return its id once it has asked."""
        run = start(self.server, NAME, name=name)
        self.receiver.wait_for(1, lambda received: received.target == f"/states/{name}")
        return run

    def said(self, run: str) -> Any:
        """What a run has told; it is one thing, however often it was told."""
        return {received.json["said"] for received in self.receiver.by_key[f"{run}.tell"]}


@pytest.fixture(scope="module")
def world(new_server: NewServer) -> Iterator[World]:
    told = threading.Event()
    made = new_server(environment=CARRIED_OUT)

    def answer(received: Received) -> Reply:
        return of_json({}) if received.method == "POST" else Reply(body=b'"yes"', after=told)

    with Receiver(answer) as receiver:
        made.configure(
            connections={"states": connection(receiver.url), "notices": connection(receiver.url, "same-command")}
        )
        made.apply(edition("1", "first", "one"))
        with made as server:
            yield World(server, receiver, told)


def test_runs_finish_under_their_own_definition_whatever_package_is_applied_and_whoever_dies(world: World) -> None:
    first = world.begin("first")
    world.server.apply(edition("2", "second", "two"))
    second = world.begin("second")
    kill_executor(world.server)
    world.server.apply(packages.workflow("another"))
    third = start_refused(world)
    assert third == (404, "workflow.not-served")
    world.told.set()
    found = [end(world.server, run) for run in (first, second)]
    assert [each["outcome"] for each in found] == ["first", "second"]
    assert [each["output"] for each in found] == [{"asked": "yes"}] * 2
    assert [world.said(run) for run in (first, second)] == [{"one"}, {"two"}]


def start_refused(world: World) -> tuple[int, str]:
    """What is answered to a start once the server has seen the package that was applied last."""

    def seen() -> tuple[int, str] | None:
        answer = world.server.begin({"flow": NAME, "input": {"name": "third"}}, "third")
        return None if answer.code == "deployment.activation-changed" else answer.outcome

    found: tuple[int, str] = wait_for(seen)
    return found


def test_a_version_that_is_redefined_is_refused_and_leaves_its_runs_as_they_were(world: World) -> None:
    world.told.clear()
    world.server.apply(edition("3", "third", "three"))
    run = world.begin("third")
    redefined = edition("3", "another", "else")
    folder = packages.write(world.server.state.parent / "redefined", redefined)
    refused = world.server.run("workflows", "apply", str(folder), "--state", str(world.server.state))
    assert refused.returncode == 1
    assert "edited version 3: stood for another definition before" in refused.stderr
    world.server.apply(redefined, force=True)
    world.told.set()
    assert end(world.server, run)["outcome"] == "third"
    assert world.said(run) == {"three"}
