"""Load from wrk: one round against one server, refused as a measurement where anything but 204 came back."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tools.bench.deliveries import Prepared, prepare
from tools.bench.servers import TABLES, BenchError, Server, cpu_seconds

CONNECTIONS: Final = 32
# A round may turn out faster than the last; deliveries that run out spoil it, those left over cost nothing.
SPARE: Final = 4
LEAST_RATE: Final = 1_000.0
# A delivery is good for thirty seconds, which must hold the preparing and the round.
LONGEST_ROUND: Final = 10
SCRIPT: Final = Path(__file__).with_name("deliver.lua")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round showed: latencies in milliseconds, the server's processor time in seconds where it is known."""

    requests: int
    seconds: float
    p50: float
    p99: float
    longest: float
    cpu: float | None = None

    @property
    def rate(self) -> float:
        """Answered requests a second."""
        return self.requests / self.seconds


def wrk() -> str:
    """Where wrk is; raises BenchError with the way to install it."""
    found = shutil.which("wrk")
    if found is None:
        raise BenchError("the load comes from wrk, which is not installed: apt-get install wrk")
    return found


def play(server: Server, *, seconds: int, expected_rate: float, scratch: Path) -> Round:
    """Prepare enough deliveries for the time and rate, send them, and hold the answers against the database.

    Raises BenchError where an answer was not 204, a connection broke, the deliveries ran out, or the rows that the
    database has gained are not those that were answered for.
    """
    count = round(seconds * SPARE * max(expected_rate, LEAST_RATE))
    key = server.program.key_file.read_bytes()
    prepared = prepare(scratch / "deliveries", count, key, server.address)
    before, began = rows(server.program.database), cpu_seconds(server.pid)
    outcome = _run_wrk(server, prepared, seconds)
    ended = cpu_seconds(server.pid)
    _check_rows(server, before, rows(server.program.database), outcome.requests)
    return replace(outcome, cpu=None if began is None or ended is None else ended - began)


def _run_wrk(server: Server, prepared: Prepared, seconds: int) -> Round:
    command = [wrk(), "--threads=1", f"--connections={CONNECTIONS}", f"--duration={seconds}s", "--timeout=10s"]
    command += [f"--script={SCRIPT}", f"http://{server.address}", "--"]
    command += [str(prepared.path), str(prepared.size), str(prepared.count)]
    done = subprocess.run(  # noqa: S603 - wrk with the bench's own arguments, no shell
        command, capture_output=True, text=True, timeout=seconds + 30, check=False
    )
    if done.returncode != 0:
        raise BenchError(f"wrk ended with {done.returncode}: {done.stderr.strip()}")
    return judge(server.program.name, done.stdout.splitlines()[-1])


def judge(name: str, told: str) -> Round:
    """A round from the JSON line of deliver.lua; raises BenchError for one that proves nothing."""
    outcome: dict[str, int] = json.loads(told)
    if outcome["unexpected"]:
        raise BenchError(
            f"{name} gave {outcome['unexpected']} answers that are not 204, {outcome['status_seen']} the last"
        )
    if outcome["broken"]:
        raise BenchError(f"{name} broke or let wait {outcome['broken']} connections")
    if outcome["exhausted"]:
        raise BenchError(f"{name} was faster than expected: the prepared deliveries ran out before the time did")
    if not outcome["requests"]:
        raise BenchError(f"{name} gave no answer")
    return Round(
        requests=outcome["requests"],
        seconds=outcome["microseconds"] / 1e6,
        p50=outcome["p50"] / 1e3,
        p99=outcome["p99"] / 1e3,
        longest=outcome["longest"] / 1e3,
    )


def rows(database: Path) -> dict[str, int]:
    """How many rows each table of an admission has."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}  # noqa: S608 - names from TABLES


def _check_rows(server: Server, before: dict[str, int], after: dict[str, int], answered: int) -> None:
    for table in TABLES:
        gained = after[table] - before[table]
        # What was under way when wrk ended may have been committed without its answer being counted.
        if not answered <= gained <= answered + CONNECTIONS:
            raise BenchError(f"{server.program.name} answered for {answered} events, {table} gained {gained} rows")
