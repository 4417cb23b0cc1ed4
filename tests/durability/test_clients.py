from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.durability.ledger import Ledger, statuses
from tests.durability.process import allow_descriptors, used
from tests.support import load
from tests.support.clock import Clock
from tests.support.deliveries import Delivery
from tests.support.gatehouse import Gatehouse, NewServer, wait_for
from tests.support.nodes import REGISTRATIONS, Node, line
from tests.support.wire import Wire

UNKNOWN = "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Clock:
    """The clock of `server`."""
    return Clock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def server(new_server: NewServer, clock: Clock) -> Iterator[Gatehouse]:
    """A server with patience enough to outlast a lock, whose clock can be stepped."""
    patient = new_server(environment=clock.environment)
    patient.configure(limits={"busyMilliseconds": 30_000})
    with patient as started:
        yield started


def test_the_work_of_clients_that_leave_before_their_answer_stands(server: Gatehouse, ledger: Ledger) -> None:
    before = len(ledger)
    deliveries = load.deliveries(100)
    with server.database() as other:
        other.execute("BEGIN EXCLUSIVE")
        with load.unanswered(server.port, [load.signed(delivery, server.key) for delivery in deliveries]):
            pass
        other.execute("ROLLBACK")
    wait_for(lambda: server.rows()["runs"] == before + len(deliveries))
    ledger.redeliver(server, deliveries)
    assert ledger.prove(server) == before + len(deliveries)


def test_requests_that_are_cut_off_leave_nothing(server: Gatehouse, ledger: Ledger) -> None:
    before = len(ledger)
    for delivery in load.deliveries(50):
        request = load.signed(delivery, server.key)
        for end in (20, request.index(b"\r\n\r\n") + 4, len(request) - 1):
            with Wire(server.port) as wire:
                wire.write(request[:end])
    ledger.redeliver(server, load.deliveries(1))
    assert ledger.prove(server) == before + 1


def test_clients_that_close_their_half_are_answered_and_then_left(server: Gatehouse, ledger: Ledger) -> None:
    deliveries = load.deliveries(50)
    for first, second in zip(deliveries[::2], deliveries[1::2], strict=True):
        with Wire(server.port) as wire:
            wire.write(load.signed(first, server.key) + load.signed(second, server.key))
            wire.socket.shutdown(socket.SHUT_WR)
            ledger.note([first, second], [wire.read(), wire.read()])
            assert wire.ended()
    with Wire(server.port) as wire:
        wire.write(load.signed(Delivery(), server.key)[:-1])
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.ended()
    assert ledger.prove(server) == len(ledger)


def test_pipelined_deliveries_are_answered_in_their_order(server: Gatehouse, ledger: Ledger) -> None:
    deliveries = load.deliveries(200)
    with Wire(server.port) as wire:
        wire.write(b"".join(load.signed(delivery, server.key) for delivery in deliveries))
        ledger.note(deliveries, [wire.read() for _ in deliveries])
    ledger.redeliver(server, deliveries)
    assert ledger.prove(server) == len(ledger)


def test_five_hundred_idle_connections_disturb_nobody(server: Gatehouse, ledger: Ledger) -> None:
    with contextlib.ExitStack() as idle:
        for _ in range(500):
            idle.enter_context(Wire(server.port))
        ledger.redeliver(server, load.deliveries(500))


@pytest.mark.parametrize("step", [timedelta(hours=-1), timedelta(hours=1)])
def test_a_clock_that_steps_refuses_those_whose_clock_did_not_and_leaves_runs_in_their_order(
    server: Gatehouse, ledger: Ledger, clock: Clock, step: timedelta
) -> None:
    first, refused, last = load.deliveries(3)
    stepped = Delivery(changes={"X-Registry-Delivery-Time": f"{datetime.now(UTC) + step:%Y-%m-%dT%H:%M:%SZ}"})
    runs = [server.deliver(first).run]
    clock.set(step)
    assert server.deliver(refused).outcome == (401, "event.unauthenticated")
    runs.append(server.deliver(stepped).run)
    clock.set(timedelta())
    assert server.deliver(stepped).outcome == (401, "event.unauthenticated")
    runs.append(server.deliver(last).run)
    assert runs == sorted(runs)
    ledger.redeliver(server, [first, refused, last])


def in_turn(node: Node) -> bool:
    return node.state == "joining"


# Certificates are good from five minutes before they were issued, and registrations for a day.
@pytest.mark.parametrize("step", [timedelta(minutes=-4), timedelta(hours=23)])
def test_a_clock_that_steps_ends_no_turn_and_leaves_the_order_of_joins(
    server: Gatehouse, clock: Clock, step: timedelta
) -> None:
    first, second, third, pending = (Node.registered(server) for _ in range(4))
    first.approved()
    second.approved()
    clock.set(step)
    third.approved()
    later = Node.registered(server).approved()
    waiting = (second, third, later)
    assert [server.registration(node.join_id)["position"] for node in waiting] == [1, 2, 3]
    assert first.report(line("a line")).status == 204
    first.finish()
    clock.set(timedelta())
    for node in waiting:
        wait_for(partial(in_turn, node))
        assert node.report(line("a line")).status == 204
        node.leave()
    assert pending.state == "pending"
    pending.leave()


def test_a_certificate_that_expires_on_an_open_connection_is_one_no_more(server: Gatehouse, clock: Clock) -> None:
    node = Node.in_turn(server)
    with node.connect() as wire:
        assert node.report(over=wire).status == 204
        clock.set(timedelta(days=8))
        refused = [node.report(over=wire), node.send("GET", node.path, over=wire)]
        unknown = Node(server).send("GET", f"{REGISTRATIONS}/{UNKNOWN}")
        clock.set(timedelta())
        assert node.report(over=wire).status == 204
    assert {answer.outcome for answer in refused} == {(404, "NOT_FOUND")}
    assert {str(answer.bare) for answer in refused} == {str(unknown.bare)}
    node.leave()


def test_more_connections_than_descriptors_do_not_end_the_service(new_server: NewServer) -> None:
    ledger, deliveries = Ledger(), load.deliveries(100)
    with new_server() as server:
        assert statuses(ledger.send(server, deliveries[:50], connections=1)) == {204}
        before = used(server).descriptors
        allow_descriptors(server, 20)
        with contextlib.ExitStack() as hungry, Wire(server.port) as early:
            for _ in range(200):
                hungry.enter_context(Wire(server.port))
            early.write(load.signed(deliveries[50], server.key))
            ledger.note(deliveries[50:51], [early.read()])
        wait_for(lambda: used(server).descriptors <= before)
        assert statuses(ledger.send(server, deliveries, connections=10)) == {204}
        assert ledger.prove(server) == len(deliveries)
