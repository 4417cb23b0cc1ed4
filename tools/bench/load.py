"""Load from wrk: one round against one server, refused as a measurement where anything but 204 came back."""

import json
import resource
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from handlers.gateway.times import now_milliseconds
from tools.bench.budgets import Budget
from tools.bench.servers import BenchError, Server, cpu_seconds

CONNECTIONS: Final = 32
SETTLE_SECONDS: Final = 15.0


class Job(Protocol):
    """Work that every server is given alike.

    `work` says in words what it is, `note` what a reader of the figures has to know, `budgets` what is asked of them.
    """

    @property
    def name(self) -> str: ...

    @property
    def work(self) -> str: ...

    @property
    def note(self) -> str: ...

    @property
    def budgets(self) -> Sequence[Budget]: ...

    @property
    def counted(self) -> int:
        """By how much each of `counts` grows with an answer."""

    def counts(self) -> Mapping[str, str]:
        """What grows with the answers in a server's database, each with the query that counts it."""

    def arguments(self, server: Server, seconds: int, expected_rate: float) -> list[str]:
        """Prepare what a round needs, and return wrk's arguments beside those that say how much load it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Runs that ended each second, during a round and after it, and the most bytes that the processes have had.

    None where it is not known.
    """

    during: float
    after: float
    server_peak: int | None
    executor_peak: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round showed: latencies in milliseconds, and seconds of processor time.

    That is the server's, None where it is not known, and that of the load: one that has no time left measures itself.
    `since_written` are the median and the 99th percentile of another latency, where there is one: that of a stream's
    events from when they came about, not from when they were committed. `began_at` is epoch milliseconds, `carried`
    what else the server did where that is asked for.
    """

    requests: int
    seconds: float
    p50: float
    p99: float
    longest: float
    cpu: float | None = None
    load_cpu: float = 0.0
    since_written: tuple[float, float] | None = None
    began_at: int = 0
    carried: Carried | None = None

    @property
    def rate(self) -> float:
        """Answered requests, or events, a second."""
        return self.requests / self.seconds


def wrk() -> str:
    """Where wrk is; raises BenchError with the way to install it."""
    found = shutil.which("wrk")
    if found is None:
        raise BenchError("the load comes from wrk, which is not installed: apt-get install wrk")
    return found


def play(job: Job, server: Server, *, seconds: int, expected_rate: float) -> Round:
    """Give a server its job for a time, and hold the answers against its database.

    Raises BenchError where an answer was not 204, a connection broke, what was prepared ran out, or the database has
    not gained what was answered for.
    """
    arguments = job.arguments(server, seconds, expected_rate)
    queries = job.counts()
    before, began = counts(server.program.database, queries), cpu_seconds(server.pid)
    outcome = _run_wrk(server, arguments, seconds)
    ended = cpu_seconds(server.pid)
    _check_counts(job, server, before, settled(server.program.database, queries), outcome.requests)
    return replace(outcome, cpu=None if began is None or ended is None else ended - began)


def _run_wrk(server: Server, arguments: list[str], seconds: int) -> Round:
    command = [wrk(), "--threads=1", f"--connections={CONNECTIONS}", f"--duration={seconds}s", "--timeout=10s"]
    before, began_at = _children_seconds(), now_milliseconds()
    done = subprocess.run(  # noqa: S603 - wrk with the bench's own arguments, no shell
        [*command, *arguments], capture_output=True, text=True, timeout=seconds + 30, check=False
    )
    if done.returncode != 0:
        raise BenchError(f"wrk ended with {done.returncode}: {done.stderr.strip()}")
    outcome = judge(server.program.name, done.stdout.splitlines()[-1])
    return replace(outcome, load_cpu=_children_seconds() - before, began_at=began_at)


def _children_seconds() -> float:
    """The processor time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def judge(name: str, told: str) -> Round:
    """A round from the JSON line of tell.lua; raises BenchError for one that proves nothing."""
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


def counts(database: Path, queries: Mapping[str, str]) -> dict[str, int]:
    """What each query counts."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return {what: connection.execute(query).fetchone()[0] for what, query in queries.items()}


def settled(database: Path, queries: Mapping[str, str]) -> dict[str, int]:
    """What each query counts once it grows no more: a server may still be at work that wrk has left behind."""
    before: dict[str, int] = {}
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        found = counts(database, queries)
        if found == before:
            return found
        before = found
        time.sleep(0.2)
    raise BenchError(f"{database} grows although nothing is asked of its server")


def _check_counts(job: Job, server: Server, before: dict[str, int], after: dict[str, int], answered: int) -> None:
    for what, count in after.items():
        gained = (count - before[what]) / job.counted
        # What was under way when wrk ended may have been committed without its answer being counted.
        if not answered <= gained <= answered + CONNECTIONS:
            raise BenchError(
                f"{server.program.name} answered {answered} requests, {what} gained what {gained:g} requests give"
            )
