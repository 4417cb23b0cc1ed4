from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.durability.conftest import on_postgresql
from tests.durability.executions import executor
from tests.durability.ledger import Ledger, problems, statuses, verify
from tests.durability.process import committing
from tests.durability.test_crash import EVENTS, killer
from tests.storage.postgresql import Server
from tests.support import load
from tests.support.effort import tries
from tests.support.gatehouse import CARRIED_OUT, COMMAND, Gatehouse, NewServer, wait_for
from tests.support.installs import SUCCEEDS, Machine
from tests.support.processes import alive

KILLS = tries(5, elsewhere=2)
UNREACHABLE = 3


def ended(server: Gatehouse) -> int:
    """The exit code of a server that ends by itself."""
    return server.stop(0)


def new_lines(server: Gatehouse, before: int) -> list[str]:
    return server.log[before:].splitlines()


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_server_whose_committing_process_is_killed_ends_with_a_reason_and_loses_nothing(
    server: Gatehouse, ledger: Ledger, seed: int
) -> None:
    before, logged = len(ledger), len(server.log)
    deliveries = load.deliveries(EVENTS)
    outcomes = ledger.send(server, deliveries, watch=killer(committing(server), random.Random(seed)))
    assert ended(server) == UNREACHABLE
    assert 503 in statuses(outcomes)
    assert statuses(outcomes) <= {204, 503, None}
    assert {problem[0] for problem in problems(outcomes)} == {503}
    lines = [line for line in new_lines(server, logged) if not line.startswith("{")]
    assert lines == ["gatehouse: the process that commits has ended, and with it this server; the log may say why"]

    server.start()
    assert before < ledger.prove(server) < before + EVENTS
    ledger.redeliver(server, deliveries)
    assert ledger.prove(server) == before + EVENTS


def test_a_committing_process_whose_server_is_killed_ends_and_another_server_starts_at_once(
    server: Gatehouse, ledger: Ledger
) -> None:
    committer = committing(server)
    deliveries = load.deliveries(EVENTS)
    ledger.send(server, deliveries, watch=killer(server.pid, random.Random(1)))
    server.kill()
    logged = len(server.log)
    server.start()
    wait_for(lambda: not alive(committer))
    ledger.redeliver(server, deliveries)
    ledger.prove(server)
    assert not any("process that commits" in line for line in new_lines(server, logged))


@pytest.mark.parametrize(
    "victim", [committing, lambda server: server.pid], ids=["the process that commits", "the server"]
)
def test_on_postgresql_neither_s_death_loses_anything_or_leaves_a_lock(
    new_server: NewServer, postgresql: Server, victim: Callable[[Gatehouse], int]
) -> None:
    ledger, url = Ledger(), postgresql.create("killing")
    deliveries = load.deliveries(1_000)
    server = on_postgresql(new_server, url)
    with server:
        ledger.send(server, deliveries, watch=killer(victim(server), random.Random(1), of=1_000))
        ended(server)
        server.start()
        ledger.redeliver(server, deliveries)
        verify(server)
        with psycopg.connect(url) as connection:
            assert ledger.compare_rows(connection) == len(deliveries)
    postgresql.drop("killing")


def test_what_runs_beside_a_server_ends_with_it_when_nothing_can_be_committed(new_server: NewServer) -> None:
    with new_server(environment=CARRIED_OUT) as server:
        machine = Machine(server)
        assert machine.configure().status == 200
        machine.run(SUCCEEDS)
        running = wait_for(lambda: executor(server))
        with machine.writing() as pen, machine.stream(machine.last_id) as stream:
            os.kill(committing(server), signal.SIGKILL)
            assert ended(server) == UNREACHABLE
            assert stream.rest() == []
            assert not alive(running)
            server.start()
            pen.close()
        assert machine.install()["detail"] == "the server ended before the install did"
        assert "Traceback" not in server.log


def test_a_signal_to_the_committing_process_alone_is_not_meant_for_it(server: Gatehouse) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(committing(server), number)
    assert server.deliver().status == 204
    assert alive(committing(server))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_stops_a_server_under_load_as_one_to_itself_does(
    new_server: NewServer, number: int
) -> None:
    # As a shell would, that a terminal sends signals to.
    leader = [sys.executable, "-c", "import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])", COMMAND]
    server, ledger = new_server(command=leader), Ledger()
    with server:
        committer = committing(server)
        deliveries = load.deliveries(1_000)

        def watch(answered: int) -> None:
            if answered == 300:
                os.killpg(server.pid, number)

        outcomes = ledger.send(server, deliveries, watch=watch)
        assert ended(server) == 0
        assert not alive(committer)
        assert statuses(outcomes) <= {204, None}
        assert "Traceback" not in server.log
        assert '"level":"error"' not in server.log
        assert "process that commits" not in server.log
        server.start()
        ledger.redeliver(server, deliveries)
        assert ledger.prove(server) == 1_000


@pytest.mark.parametrize("closed", ["0<&-", "2>&-", "0<&- 2>&-"])
def test_a_server_that_was_started_without_some_of_its_streams_commits(new_server: NewServer, closed: str) -> None:
    server = new_server(command=("sh", "-c", f'exec "$@" {closed}', "sh", COMMAND))
    with server:
        assert server.deliver().status == 204
        os.kill(committing(server), signal.SIGKILL)
        assert ended(server) == UNREACHABLE
        server.start()
        assert server.deliver().status == 204


def test_a_server_without_any_stream_commits(new_server: NewServer) -> None:
    made = new_server()
    with subprocess.Popen(
        ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", COMMAND, "serve", "--state", str(made.state)],
        env=made.environment(),
    ) as process:
        lock = made.state / "lock.control"
        found = wait_for(lambda: lock.exists() and lock.read_text().strip())
        made.control = found
        assert made.deliver().status == 204
        process.terminate()
        assert process.wait(30) == 0


def test_a_committing_process_holds_neither_lock_nor_address(server: Gatehouse) -> None:
    names = [each.readlink().name for each in Path(f"/proc/{committing(server)}/fd").iterdir()]
    assert "gatehouse.db" in names
    assert [each for each in names if each.startswith(("lock.", "socket:"))] == []
