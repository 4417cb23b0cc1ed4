from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import pytest

from tests.durability.ledger import Ledger
from tests.durability.process import peak_memory, used
from tests.support import load
from tests.support.effort import tries
from tests.support.gatehouse import COMMAND, Gatehouse, NewServer, wait_for
from tests.support.wire import Wire
from tools.bench.servers import memory_of_forks

EVENTS = tries(20_000, elsewhere=5_000)
MOST_KIBIBYTES = 150 * 1024
# What the process that commits has for itself: what it shares with the server, the server has.
MOST_BESIDE_KIBIBYTES = 40 * 1024


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[Gatehouse]:
    """A server that is no fork, which would have the memory of where it came from, too."""
    with new_server(command=[sys.executable, COMMAND]) as started:
        yield started


def test_admitting_many_events_takes_less_than_the_memory_that_is_promised(server: Gatehouse, ledger: Ledger) -> None:
    for _ in range(EVENTS // 5_000):
        ledger.redeliver(server, load.deliveries(5_000))
    assert server.rows()["runs"] == EVENTS
    assert peak_memory(server) < MOST_KIBIBYTES
    beside = memory_of_forks(server.pid)
    assert beside is not None
    assert beside // 1024 < MOST_BESIDE_KIBIBYTES


def test_no_descriptor_and_no_thread_is_left_when_the_clients_have_left(server: Gatehouse, ledger: Ledger) -> None:
    for _ in range(8):
        assert server.operate("GET", "/v1/doctor").status == 200
    before = used(server)
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(Wire(server.port))
        for delivery in load.deliveries(50):
            request = load.signed(delivery, server.key)
            stack.enter_context(Wire(server.port)).write(request[: len(request) // 2])
        ledger.redeliver(server, load.deliveries(500))
        ledger.send(server, load.deliveries(500), connections=200)
    wait_for(lambda: all(now <= then for now, then in zip(used(server), before, strict=True)))
