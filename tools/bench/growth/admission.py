"""Admission with few runs stored, and with many: its rate and latency, its start, its memory, what it reads and writes.

All servers run at once and are measured in turns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from tools.bench import admission
from tools.bench.admission import Admission
from tools.bench.growth.filling import LIVE, fill_runs
from tools.bench.growth.parts import Column, Part, Promise, difference, megabytes, quotient
from tools.bench.load import CONNECTIONS, Round, play
from tools.bench.report import rate
from tools.bench.servers import Program, Server, peak_memory, serving

STORED: Final = (0, 100_000, 2_000_000)
ROUNDS: Final = 5
SECONDS: Final = 3
WARM_UP_SECONDS: Final = 1
WARM_UP_RATE: Final = 6_000.0

COLUMNS: Final = (
    Column("rate", "requests/s"),
    Column("least", "least"),
    Column("greatest", "greatest"),
    Column("p50", "p50 ms", 1),
    Column("p99", "p99 ms", 1),
    Column("cpu", "CPU µs/request"),
    Column("read", "KB read/request", 1),
    Column("written", "KB written/request", 1),
    Column("start", "start s", 2),
    Column("peak", "peak MB"),
)
NOTE: Final = (
    "Beside the runs that are stored each server has those of the rounds, which come to some ten thousands, with none"
    f" stored too. Of those stored the last {LIVE:,} are live, the others have ended. What is"
    " read and written is what the process asks of the system, most of it from and to the system's cache. Of the pages"
    " of 4 KB that a commit writes two thirds are of the indexes on event ids and idempotency keys, which are random:"
    " with few runs the requests share pages, and the server's own cache of 4 MB has them; with many each request reads"
    " and writes its own. They are written to the log at once and to their places at the next checkpoint, some hundreds"
    " of requests later, for which a commit waits: the farther apart the places, the longer, hence the 99th percentile."
    " All this holds while the system's cache has the two indexes, some 250 bytes for each run ever admitted; without"
    " it each request waits for about four pages from the disk."
)


class Stored(Admission):
    """The deliveries of Admission; what they leave is told by its last number: to count two million rows takes long."""

    def counts(self) -> Mapping[str, str]:
        """Of each table in which an admission leaves a row the number of the last one; none is taken away meanwhile."""
        return {
            "admissions": "SELECT COALESCE(max(rowid), 0) FROM admissions",
            "runs": "SELECT COALESCE(max(rowid), 0) FROM runs",
            "outbox": "SELECT COALESCE(max(seq), 0) FROM outbox",
            "audit": "SELECT COALESCE(max(seq), 0) FROM audit_heads",
        }


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that a process and those it has started have read and written so far, be it from and to a cache."""

    read: int
    written: int

    @classmethod
    def so_far(cls, pid: int) -> "Moved | None":
        """Those of a process with its children; None where there is no /proc to ask."""
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            told = [Path(f"/proc/{each}/io").read_text() for each in (pid, *children)]
        except OSError:
            return None
        counts = [dict(line.split(": ") for line in text.splitlines()) for text in told]
        return cls(*(sum(int(each[name]) for each in counts) for name in ("rchar", "wchar")))


@dataclass(frozen=True, slots=True)
class Played:
    """A round, and the KB that the server read and wrote for each request of it; None where they are not known."""

    round: Round
    read: float | None
    written: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """A server that has so many runs stored: its rounds, the seconds to its first answer, its peak memory in bytes."""

    stored: int
    played: Sequence[Played]
    start: float
    peak: int | None


def measure(folder: Path, say: Callable[[str], None], stored: Sequence[int] = STORED) -> Part:
    """Fill a state folder for each number of runs, and measure their servers."""
    folder.mkdir()
    return play_rounds(fill(folder, stored, say), folder, say)


def fill(folder: Path, stored: Sequence[int], say: Callable[[str], None]) -> dict[int, Program]:
    """A program for each number of runs, whose folder has them."""
    programs = {}
    for count in stored:
        program = replace(admission.gatehouse(folder / str(count)), name=f"{count:,} runs")
        # The first start of a folder makes what later ones find, and all runs are made like the first that it admits.
        with serving(program) as server:
            play(Stored(folder), server, seconds=WARM_UP_SECONDS, expected_rate=WARM_UP_RATE)
        if count:
            fill_runs(program, count)
        programs[count] = program
        say(f"growth: {count:,} runs stored")
    return programs


def play_rounds(
    programs: Mapping[int, Program],
    scratch: Path,
    say: Callable[[str], None],
    *,
    rounds: int = ROUNDS,
    seconds: int = SECONDS,
) -> Part:
    """Play A B C A B C, so that a drifting machine hurts all alike."""
    played: dict[int, list[Played]] = {count: [] for count in programs}
    with _serving_all(programs) as servers:
        expected = {
            count: play(Stored(scratch), server, seconds=WARM_UP_SECONDS, expected_rate=WARM_UP_RATE).rate
            for count, server in servers.items()
        }
        for number in range(1, rounds + 1):
            for count, server in servers.items():
                played[count].append(outcome := _play(scratch, server, seconds, expected[count]))
                say(f"growth, round {number}: {count:,} runs stored, {outcome.round.rate:,.0f} requests/s")
        found = [
            Measured(count, played[count], server.first_answer, peak_memory(server.pid))
            for count, server in servers.items()
        ]
    return part(found)


@contextmanager
def _serving_all(programs: Mapping[int, Program]) -> Iterator[dict[int, Server]]:
    with ExitStack() as stack:
        yield {count: stack.enter_context(serving(program)) for count, program in programs.items()}


def _play(scratch: Path, server: Server, seconds: int, expected_rate: float) -> Played:
    before = Moved.so_far(server.pid)
    outcome = play(Stored(scratch), server, seconds=seconds, expected_rate=expected_rate)
    after = Moved.so_far(server.pid)
    if before is None or after is None:
        return Played(outcome, None, None)
    thousands = 1_000 * outcome.requests
    return Played(outcome, (after.read - before.read) / thousands, (after.written - before.written) / thousands)


def part(found: Sequence[Measured]) -> Part:
    """The table, and what is promised of the last beside the first."""
    rows = {f"{each.stored:,} runs": _row(each) for each in found}
    first, last = rows[f"{found[0].stored:,} runs"], rows[f"{found[-1].stored:,} runs"]
    than = f"with {found[-1].stored:,} runs, against {found[0].stored:,}"
    return Part(
        title=f"admitEvent by the number of stored runs, durable, {CONNECTIONS} connections, {SECONDS} s a round",
        columns=COLUMNS,
        rows=rows,
        promises=[
            Promise(
                f"rate {than}",
                quotient(last["rate"], first["rate"]),
                "at least",
                0.6,
                "two random pages more to read and to write for each request, on whatever disk there is",
            ),
            Promise(
                f"p50 {than}",
                quotient(last["p50"], first["p50"]),
                "at most",
                1.7,
                "all connections wait for the same commits, so that it is the rate turned around",
            ),
            Promise(
                f"processor time {than}",
                quotient(last["cpu"], first["cpu"]),
                "at most",
                1.4,
                "these pages have to be read and written; a query without an index would be far beyond",
            ),
            Promise(f"peak memory {than}", quotient(last["peak"], first["peak"]), "at most", 1.15, "nothing is kept"),
            Promise(
                f"seconds to the first answer, more {than}",
                difference(last["start"], first["start"]),
                "at most",
                0.5,
                "nothing is read through at a start; the rest is for what else the machine does then",
            ),
        ],
        note=NOTE,
    )


def _row(measured: Measured) -> dict[str, float | None]:
    rounds = [each.round for each in measured.played]
    rates = [each.rate for each in rounds]
    return {
        "stored": measured.stored,
        "rate": rate(rounds),
        "least": min(rates),
        "greatest": max(rates),
        "p50": median(each.p50 for each in rounds),
        "p99": median(each.p99 for each in rounds),
        "cpu": _median([each.cpu and each.cpu / each.requests * 1e6 for each in rounds]),
        "read": _median([each.read for each in measured.played]),
        "written": _median([each.written for each in measured.played]),
        "start": measured.start,
        "peak": megabytes(measured.peak),
        "load_share": median(each.load_cpu / each.seconds for each in rounds),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
