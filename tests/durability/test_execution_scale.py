from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

from tests.durability.conftest import on_postgresql
from tests.durability.executions import end, executor, start, workflow
from tests.storage.postgresql import Server
from tests.support import load, wire
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import CARRIED_OUT, Gatehouse, NewServer, wait_for

# What ten thousand may cost, 50 MB, a quarter of them may cost by half: the rest is what differs from time to time.
RUNS = 2_500
MOST_KIBIBYTES = 25 * 1024
LOOKED_SECONDS = 5
# One for each run and second would be fifty times as many.
MOST_TRANSACTIONS = RUNS * LOOKED_SECONDS // 50
DONE = {"type": "finish", "outcome": "done", "output": {}}


def waiting(name: str, duration: str) -> dict[str, object]:
    pause = {"type": "wait-until", "until": f"timestamp(run.admittedAt) + duration('{duration}')", "next": "done"}
    return workflow(name, {"pause": pause, "done": DONE})


def memory(pid: int) -> int:
    """What the process has in memory, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])


def transactions(url: str) -> int:
    """How many transactions the database has seen."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert found is not None
    return int(found[0])


def seen_in_a_while(url: str) -> int:
    """How many transactions the database sees in LOOKED_SECONDS: nothing else is waited for."""
    before = transactions(url)
    time.sleep(LOOKED_SECONDS)
    return transactions(url) - before


def begin(server: Gatehouse, count: int) -> None:
    """Start runs that wait for an hour."""
    fields = server.operator | {"Content-Type": "application/json"}
    requests = [
        wire.message(
            "POST", "/v1/runs", fields | {"Idempotency-Key": f"w{number}"}, b'{"flow": "in-an-hour", "input": {}}'
        )
        for number in range(count)
    ]
    assert {answer.status for answer in load.send(server.port, requests) if answer is not None} == {201}


@in_ci_alone
@pytest.mark.timeout(900)
def test_thousands_of_runs_that_wait_cost_little_memory_and_are_not_asked_for_one_by_one(
    new_server: NewServer, postgresql: Server
) -> None:
    url = postgresql.create("waiting")
    made = on_postgresql(new_server, url, **CARRIED_OUT)
    made.apply(waiting("in-an-hour", "3600s"), waiting("short", "0s"))
    with made as server:
        # All that is loaded with the first work is there before it is measured.
        assert all(end(server, start(server, "short"))["state"] == "completed" for _ in range(20))
        pid = wait_for(lambda: executor(server))
        before = memory(pid)
        begin(server, RUNS)
        wait_for(lambda: server.operate("GET", "/v1/doctor").json["runs"]["waiting"] == RUNS, seconds=600)
        assert memory(pid) - before < MOST_KIBIBYTES
        # What the last runs and the question for them have left is over some time.
        wait_for(lambda: seen_in_a_while(url) < MOST_TRANSACTIONS, seconds=60)
        assert executor(server) == pid
        assert end(server, start(server, "short"))["state"] == "completed"
