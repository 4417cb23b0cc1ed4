from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pytest

from tests.durability.executions import (
    SHORT,
    call,
    connection,
    end,
    for_a_person,
    reach,
    results,
    retry,
    show,
    start,
    workflow,
)
from tests.support.clock import Clock
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import CARRIED_OUT, Gatehouse, NewServer
from tests.support.packages import Workflow
from tests.support.receivers import NEVER, Receiver, Reply, in_turn

pytestmark = in_ci_alone

HOUR: Final = timedelta(hours=1)
DONE: Final = {"type": "finish", "outcome": "done", "output": {}}


def waiting(name: str, duration: str, *, deadline: timedelta) -> Workflow:
    """A workflow that waits so long, and then ends."""
    pause = {"type": "wait-until", "until": f"timestamp(run.admittedAt) + duration('{duration}')", "next": "done"}
    return workflow(name, {"pause": pause, "done": DONE}, deadline_seconds=int(deadline.total_seconds()))


@dataclass(frozen=True)
class World:
    """A server whose clock can be stepped, and who it calls."""

    server: Gatehouse
    clock: Clock
    receiver: Receiver

    def begin(self, flow: str) -> str:
        """Start a run that is to wait, and return its id once it does."""
        run = start(self.server, flow, name="n")
        reach(self.server, run, is_waiting)
        return run

    def is_at_work(self) -> bool:
        """Whether a run that waits for nothing is carried out."""
        return bool(end(self.server, start(self.server, "short"))["state"] == "completed")


def is_waiting(found: Any) -> bool:
    return found["state"] == "waiting" and found["nextDueAt"] is not None


@pytest.fixture(scope="module")
def world(new_server: NewServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    clock = Clock(tmp_path_factory.mktemp("clock"))
    made = new_server(environment=CARRIED_OUT | clock.environment)
    with Receiver(in_turn(NEVER, Reply())) as receiver:
        made.configure(connections={"orders": connection(receiver.url, "hold-after-dispatch", timeoutSeconds=SHORT)})
        order = call("orders", "PUT", "'orders'", "done", {})
        made.apply(
            waiting("short", "0s", deadline=HOUR),
            waiting("in-a-second", "1s", deadline=HOUR * 3),
            waiting("in-an-hour", "3600s", deadline=HOUR * 3),
            waiting("never-in-time", "7200s", deadline=HOUR),
            workflow("order", {"order": order, "done": DONE}, deadline_seconds=3600),
        )
        with made as server:
            yield World(server, clock, receiver)


@pytest.fixture(autouse=True)
def right_clock(world: World) -> Iterator[None]:
    """Set the clock right after each test."""
    yield
    world.clock.set(timedelta())


def test_a_wait_of_an_hour_is_over_once_the_clock_jumps_an_hour_forward(world: World) -> None:
    run = world.begin("in-an-hour")
    world.clock.set(HOUR)
    assert end(world.server, run)["state"] == "completed"
    world.clock.set(timedelta())
    assert world.is_at_work()


def test_a_wait_goes_on_while_the_clock_stands_an_hour_back_and_is_over_when_it_is_right(world: World) -> None:
    run = start(world.server, "in-a-second")
    world.clock.set(-HOUR)
    assert world.is_at_work()
    assert reach(world.server, run, is_waiting)["state"] == "waiting"
    world.clock.set(timedelta())
    assert end(world.server, run)["state"] == "completed"


def test_a_deadline_that_passes_while_a_run_waits_ends_it(world: World) -> None:
    run = world.begin("never-in-time")
    assert show(world.server, run)["nextDueAt"] == show(world.server, run)["deadlineAt"]
    world.clock.set(HOUR)
    assert end(world.server, run)["failureCode"] == "deadline.passed"


def test_a_deadline_that_passes_while_the_server_is_down_ends_the_run_at_its_start(world: World) -> None:
    run = world.begin("never-in-time")
    world.server.stop()
    world.clock.set(HOUR)
    world.server.start()
    assert end(world.server, run)["failureCode"] == "deadline.passed"


def test_a_deadline_that_passes_while_execution_is_held_ends_the_run_at_its_release(world: World) -> None:
    run = world.begin("never-in-time")
    world.server.hold()
    world.clock.set(HOUR)
    # The hold keeps the run, however long it has been due.
    assert show(world.server, run)["state"] == "waiting"
    world.server.release_execution()
    assert end(world.server, run)["failureCode"] == "deadline.passed"
    world.server.release_admission()


def test_a_deadline_that_passes_over_an_uncertain_command_leaves_it_to_a_person(world: World) -> None:
    run = start(world.server, "order", name="n")
    reach(world.server, run, for_a_person)
    world.clock.set(HOUR)
    assert world.is_at_work()
    assert for_a_person(show(world.server, run))
    assert retry(world.server, run, repeat=True) == (200, "")
    assert end(world.server, run)["failureCode"] == "deadline.passed"
    assert results(world.server, run, "order") == ["unanswered", "completed"]
    first, second = world.receiver.received
    assert first.command == second.command
