from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from tests.durability.conftest import on_postgresql
from tests.durability.executions import end, executor, kill_executor, start
from tests.durability.kills import ERRAND, FLOW, Errand, Services, Trap
from tests.durability.ledger import verify
from tests.storage.postgresql import Server
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import CARRIED_OUT, Gatehouse, NewServer, wait_for

pytestmark = [in_ci_alone, pytest.mark.timeout(600)]

RUNS = 200
# As many runs as both executors together have in hand, and neither has alone.
AT_ONCE = 16


@dataclass(frozen=True)
class Pair:
    """Two servers on one database, and who both of them call."""

    servers: tuple[Gatehouse, Gatehouse]
    services: Services

    def begin(self, errands: list[Errand]) -> dict[str, Errand]:
        """Start runs, by both servers in turn."""
        return {
            start(
                self.servers[number % 2],
                FLOW,
                errand.name,
                name=errand.name,
                pause=errand.pause,
                orders=errand.orders,
            ): errand
            for number, errand in enumerate(errands)
        }

    def prove(self, server: Gatehouse, runs: dict[str, Errand]) -> None:
        """Fail unless every run ends in its own way, and every command came in one form alone."""
        for run, errand in runs.items():
            ended = end(server, run)
            assert (ended["state"], ended["outcome"], ended["output"]) == errand.outcome(run)
        arrived = self.services.by_key
        assert {key for run, errand in runs.items() for key in errand.keys(run)} <= set(arrived)
        assert [each for each in arrived.values() if len({received.command for received in each}) > 1] == []


@pytest.fixture
def pair(new_server: NewServer, postgresql: Server, request: pytest.FixtureRequest) -> Iterator[Pair]:
    url = postgresql.create(request.node.name)
    with contextlib.ExitStack() as stack:
        services = stack.enter_context(Services())
        first = on_postgresql(new_server, url, **CARRIED_OUT)
        second = new_server(environment=CARRIED_OUT | {"GATEHOUSE_DATABASE_URL": url, "GATEHOUSE_NODE": "second"})
        for server in (first, second):
            server.configure(connections=services.connections)
        first.apply(ERRAND)
        for server in (first, second):
            stack.enter_context(server)
        for server in (first, second):
            wait_for(partial(executor, server))
        yield Pair((first, second), services)


def test_two_servers_carry_out_each_step_of_each_run_once(pair: Pair) -> None:
    trap = Trap("/states/", holds=True)
    pair.services.lay(trap)
    runs = pair.begin([Errand(number, "0s", orders=number % 3 == 0) for number in range(RUNS)])
    pair.services.receiver.wait_for(AT_ONCE)
    trap.let_go()
    pair.prove(pair.servers[0], runs)
    received = pair.services.receiver.received
    assert len(received) == RUNS + sum(len(errand.keys(run)) for run, errand in runs.items())
    for server in pair.servers:
        verify(server)


def test_what_a_server_had_in_hand_when_it_was_killed_is_taken_over_by_the_other(pair: Pair) -> None:
    killed, left = pair.servers
    trap = Trap("/states/", holds=True)
    pair.services.lay(trap)
    runs = pair.begin([Errand(number, "0s", orders=False) for number in range(40)])
    pair.services.receiver.wait_for(AT_ONCE)
    kill_executor(killed)
    killed.kill()
    trap.let_go()
    pair.prove(left, runs)
