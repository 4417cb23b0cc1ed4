"""Faults that were reported of engines like the one that carries runs out, by their numbers in that collection."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.durability.executions import end
from tests.support.deliveries import Delivery
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import CARRIED_OUT, Gatehouse, NewServer, wait_for
from tests.support.packages import Workflow, connection, workflow
from tests.support.receivers import Received, Receiver, Reply

EVENTS: Final = 12
# A step goes on for so long, while others may begin the same one.
STEP_SECONDS: Final = 0.5


# Case 13: one and the same workflow, started twice at once.


@in_ci_alone
def test_an_event_that_comes_to_two_processes_twice_at_once_is_carried_out_once(new_server: NewServer) -> None:
    first = new_server(environment=CARRIED_OUT)
    shared = {"GATEHOUSE_DATABASE_URL": f"sqlite:///{first.state / 'gatehouse.db'}", "GATEHOUSE_NODE": "second"}
    second = new_server(environment=CARRIED_OUT | shared)
    with Receiver(slowly) as receiver:
        for server in (first, second):
            server.configure(connections={"receiver": connection(receiver.url)})
        first.apply(told_at_once())
        with first, second:
            wait_for(lambda: executors(first) == 2)
            runs = {deliver_at_once(Delivery(), first, second) for _ in range(EVENTS)}
            assert len(runs) == EVENTS
            assert {end(second, run)["state"] for run in runs} == {"completed"}
        assert sorted(received.key or "" for received in receiver.received) == sorted(f"{run}.tell" for run in runs)


def slowly(_: Received) -> Reply:
    """Answer, but not before whoever else has begun the same step would have called, too."""
    time.sleep(STEP_SECONDS)
    return Reply()


def told_at_once() -> Workflow:
    """A workflow whose call is due as soon as it is admitted."""
    made = workflow(version="2", connection="receiver")
    made["steps"]["pause"]["until"] = "timestamp(run.admittedAt)"
    return made


def executors(server: Gatehouse) -> int:
    """How many executors have made themselves known."""
    with server.database() as connection:
        [[count]] = connection.execute("SELECT count(*) FROM executors")
        return int(count)


def deliver_at_once(delivery: Delivery, *servers: Gatehouse) -> str:
    """Deliver an event to each server from two threads at once, and return the run that all of them tell."""
    together = threading.Barrier(2 * len(servers))

    def deliver(server: Gatehouse) -> str:
        together.wait()
        return server.deliver(delivery).run

    with ThreadPoolExecutor(2 * len(servers)) as threads:
        [run] = set(threads.map(deliver, servers * 2))
    return run
