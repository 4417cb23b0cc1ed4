"""A node's report to a join that has no log lines yet, and to one that has all that are kept.

Two servers run at once, and each report goes to one and then to the other.
"""

import http.client
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from storage.join.events import LINES_KEPT
from tools.bench import programs
from tools.bench.growth.parts import Column, Part, Promise, difference, megabytes, quotient
from tools.bench.install import percentile
from tools.bench.join import BATCHES, BEHIND_PROXY, Node, enrol
from tools.bench.reports import report
from tools.bench.servers import HOST, BenchError, Server, cpu_seconds, peak_memory, serving
from tools.state import StateFolder

REPORTS: Final = 500
KEPT: Final = (0, LINES_KEPT)

COLUMNS: Final = (
    Column("rate", "reports/s"),
    Column("p50", "p50 ms", 2),
    Column("p99", "p99 ms", 2),
    Column("cpu", "CPU µs/report"),
    Column("peak", "peak MB"),
)
NOTE: Final = (
    "One connection, plain HTTP with Client-Cert. Before each report another process writes to the database, to take"
    " the lines away or to change something else, so that the server reads its pages anew; many connections would have"
    " 2,000 lines kept within a few commits, as in the other tables of joins. Where all are kept, a report takes the"
    " oldest away."
)

# Both writes of another process make a server read its pages anew.
_TOUCH: Final = "UPDATE joins SET beats = beats + 1"
_EMPTY: Final = "DELETE FROM join_lines"


@dataclass(slots=True)
class Target:
    """A server with a join whose turn it is; before each report it has `kept` lines, which is none or LINES_KEPT."""

    server: Server
    node: Node
    database: sqlite3.Connection
    kept: int
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection(HOST, self.server.program.port, timeout=30)

    def make_ready(self) -> None:
        """Change the database, so that there are as many lines as there should be."""
        with self.database:
            self.database.execute(_TOUCH)
            if not self.kept:
                self.database.execute(_EMPTY)

    def post(self, body: bytes) -> float:
        """Send a report; return the milliseconds until its answer, and raise BenchError where that is not 204."""
        headers = {"Content-Type": "application/json", "Client-Cert": self.node.client_cert}
        began = time.perf_counter()
        self.connection.request("POST", f"/v1/join/registrations/{self.node.join_id}/events", body, headers)
        answer = self.connection.getresponse()
        told = answer.read()
        took = time.perf_counter() - began
        if answer.status != 204:
            raise BenchError(f"{self.server.program.name} answered {answer.status}: {told.decode()}")
        return took * 1e3


@dataclass(frozen=True, slots=True)
class Measured:
    """The reports of so many lines to a join with so many: milliseconds of each, seconds of processor time of all.

    `peak` is the most bytes that the server had in memory. What the system does not tell is None.
    """

    lines: int
    kept: int
    delays: Sequence[float]
    cpu: float | None
    peak: int | None

    @property
    def name(self) -> str:
        """How the table names it."""
        return f"{self.lines} {'line' if self.lines == 1 else 'lines'} to a join with {self.kept:,}"


def measure(folder: Path, say: Callable[[str], None], reports: int = REPORTS) -> Part:
    """Send so many reports of each size to a join without lines and to one with all that are kept."""
    folder.mkdir()
    found: list[Measured] = []
    with _targets(folder) as targets:
        for lines in BATCHES:
            found += (outcomes := _measure(targets, lines, reports))
            say(f"growth: {', '.join(f'{each.name} {median(each.delays):.2f} ms' for each in outcomes)}")
    return part(found)


@contextmanager
def _targets(folder: Path) -> Iterator[list[Target]]:
    with ExitStack() as stack:
        targets = []
        for kept in KEPT:
            program = programs.gatehouse(folder / str(kept), "join", settings=BEHIND_PROXY)
            server = stack.enter_context(serving(program))
            node = enrol(server, StateFolder(program.folder), folder / f"{kept}.pem")
            database = stack.enter_context(closing(sqlite3.connect(program.database)))
            targets.append(target := Target(server, node, database, kept))
            stack.callback(target.connection.close)
        yield targets


def _measure(targets: Sequence[Target], lines: int, reports: int) -> list[Measured]:
    body = report(lines)
    for target in targets:
        # Then the lines that are kept are of reports like those that follow.
        for _ in range(-(-target.kept // lines) + 1):
            target.post(body)
    before = [cpu_seconds(target.server.pid) for target in targets]
    delays: list[list[float]] = [[] for _ in targets]
    for _ in range(reports):
        for target, own in zip(targets, delays, strict=True):
            target.make_ready()
            own.append(target.post(body))
    return [
        Measured(
            lines,
            target.kept,
            sorted(own),
            difference(cpu_seconds(target.server.pid), spent),
            peak_memory(target.server.pid),
        )
        for target, own, spent in zip(targets, delays, before, strict=True)
    ]


def part(found: Sequence[Measured]) -> Part:
    """The table, and what is promised of a join with all lines beside one without."""
    rows = {each.name: _row(each) for each in found}
    pairs = [(found[place], found[place + 1]) for place in range(0, len(found), 2)]
    return Part(
        title="reportJoinEvents by the number of log lines that are kept, durable, one connection",
        columns=COLUMNS,
        rows=rows,
        promises=[promise for none, full in pairs for promise in _promises(rows, none, full)],
        note=NOTE,
    )


def _promises(rows: Mapping[str, Mapping[str, float | None]], none: Measured, full: Measured) -> list[Promise]:
    with_none, with_all = rows[none.name], rows[full.name]
    than = f"with {full.kept:,} kept against {none.kept}"
    return [
        Promise(
            f"p50 of {full.lines}, {than}",
            quotient(with_all["p50"], with_none["p50"]),
            "at most",
            1.5,
            "the oldest lines are taken away by the number of the last, which is the key of their rows",
        ),
        Promise(
            f"peak MB of {full.lines}, more {than}",
            difference(with_all["peak"], with_none["peak"]),
            "at most",
            15,
            "lines that are kept are in the database alone",
        ),
    ]


def _row(measured: Measured) -> dict[str, float | None]:
    delays = measured.delays
    return {
        "lines": measured.lines,
        "kept": measured.kept,
        "rate": len(delays) / sum(delays) * 1e3,
        "p50": percentile(delays, 50),
        "p99": percentile(delays, 99),
        "cpu": None if measured.cpu is None else measured.cpu / len(delays) * 1e6,
        "peak": megabytes(measured.peak),
    }
