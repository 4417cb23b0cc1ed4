"""Overload: twice what admission can commit is asked of it, and what becomes of what it takes and refuses."""

import math
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

from rich.table import Table

from tools.bench import admission
from tools.bench.admission import Admission
from tools.bench.deliveries import prepare
from tools.bench.load import CONNECTIONS, counts, play, settled, wrk
from tools.bench.servers import BenchError, Server, serving

SCRIPT: Final = Path(__file__).with_name("overload.lua")

WARM_UP_SECONDS: Final = 2
CAPACITY_SECONDS: Final = 4
EXPECTED_RATE: Final = 6_000.0
UNLOADED_SECONDS: Final = 2.0
PRESSURE_SECONDS: Final = 8.0
CALM_SECONDS: Final = 2.0
# The queue that a burst may form has been worked off by then; what was taken before is told apart.
ONSET_SECONDS: Final = 1.0
# As many clients that each send now and then; with few, those that wait for an answer would be all.
CLIENTS: Final = 512
TIMES: Final = 2.0
# The load that shows whether a server has recovered, and how many of its answers in a row have to be good.
PROBE_RATE: Final = 100.0
IN_A_ROW: Final = 5
# One client that waits for each answer is sent on by a schedule that it can never keep.
UNBOUNDED_RATE: Final = 1_000_000.0

LEAST_ACCEPTED: Final = 0.8
LONGEST_TIMES: Final = 10.0
RECOVERED_TIMES: Final = 2.0
RECOVERY_SECONDS: Final = 1.0
# A load that fell this far behind its schedule proves nothing.
LEAST_OFFERED: Final = 0.9

QUERY: Final = {"admissions": "SELECT count(*) FROM admissions"}


class Answer(NamedTuple):
    """One answer: seconds from the first request to its own, milliseconds that it took, and what it was."""

    at: float
    took: float
    status: int
    retry_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """Requests a second, latencies in milliseconds, and the seconds until the server had recovered.

    What was accepted and refused is counted from ONSET_SECONDS on, `onset_longest` is the longest latency of what was
    accepted before. `unheeded` are refusals without Retry-After, `missing` what was acknowledged and is not stored.
    """

    unloaded_p50: float
    capacity: float
    offered: float
    accepted: float
    accepted_p50: float
    accepted_p99: float
    onset_longest: float
    refused: float
    refused_p50: float
    refused_p99: float
    recovery: float
    unheeded: int
    missing: int

    def table(self) -> Table:
        """What was measured, beside what is promised."""
        table = Table(
            "", "measured", "promised", title=f"Overload: {TIMES:g} times what is committed, {CLIENTS} clients"
        )
        for column in table.columns[1:]:
            column.justify = "right"
        longest = LONGEST_TIMES * self.unloaded_p50
        table.add_row("unloaded, one connection, p50", f"{self.unloaded_p50:.1f} ms", "")
        table.add_row(f"capacity, {CONNECTIONS} connections", f"{self.capacity:,.0f}/s", "")
        table.add_row("offered", f"{self.offered:,.0f}/s", "")
        table.add_row("accepted", f"{self.accepted:,.0f}/s", f"{LEAST_ACCEPTED * self.capacity:,.0f}/s")
        table.add_row("accepted, p50", f"{self.accepted_p50:.1f} ms", "")
        table.add_row("accepted, p99", f"{self.accepted_p99:.1f} ms", f"{longest:.1f} ms")
        table.add_row("accepted at the onset, longest", f"{self.onset_longest:.1f} ms", "")
        table.add_row("refused", f"{self.refused:,.0f}/s", "")
        table.add_row("refused, p50", f"{self.refused_p50:.1f} ms", "")
        table.add_row("refused, p99", f"{self.refused_p99:.1f} ms", "")
        table.add_row("recovery", f"{self.recovery:.2f} s", f"{RECOVERY_SECONDS:g} s")
        return table

    def document(self) -> dict[str, Any]:
        """The same for machines; `recovery` is null where there was none."""
        return asdict(self) | {"recovery": self.recovery if math.isfinite(self.recovery) else None}

    def failures(self) -> list[str]:
        """A line for each promise that was not held."""
        longest = LONGEST_TIMES * self.unloaded_p50
        promises = {
            "nothing was refused": self.refused > 0,
            f"{self.unheeded} refusals have no Retry-After": self.unheeded == 0,
            f"{self.missing} acknowledged events are not stored": self.missing <= 0,
            f"{self.accepted:,.0f} accepted a second are less than {LEAST_ACCEPTED:g} of {self.capacity:,.0f}": (
                self.accepted >= LEAST_ACCEPTED * self.capacity
            ),
            f"the 99th percentile of what is accepted is {self.accepted_p99:.1f} ms, not below {longest:.1f}": (
                self.accepted_p99 < longest
            ),
            f"it recovered after {self.recovery:.2f} s, not within {RECOVERY_SECONDS:g}": (
                self.recovery < RECOVERY_SECONDS
            ),
        }
        return [f"overload: {broken}" for broken, held in promises.items() if not held]


def measure(folder: Path, say: Callable[[str], None]) -> Overload:
    """Overload Gatehouse, started for that in `folder`; raises BenchError where the figures cannot be trusted."""
    with serving(admission.gatehouse(folder / "overload")) as server:
        job = Admission(folder)
        warm = play(job, server, seconds=WARM_UP_SECONDS, expected_rate=EXPECTED_RATE)
        unloaded = median(each.took for each in _send(server, folder, 1, [(UNLOADED_SECONDS, UNBOUNDED_RATE)], 4_000))
        say(f"overload: {unloaded:.1f} ms unloaded")
        capacity = play(job, server, seconds=CAPACITY_SECONDS, expected_rate=warm.rate).rate
        say(f"overload: {capacity:,.0f} requests/s with {CONNECTIONS} connections")
        before = counts(server.program.database, QUERY)["admissions"]
        phases = [(PRESSURE_SECONDS, TIMES * capacity), (CALM_SECONDS, PROBE_RATE)]
        answers = _send(server, folder, CLIENTS, phases, math.ceil(1.1 * sum(map(math.prod, phases))) + CLIENTS)
        gained = settled(server.program.database, QUERY)["admissions"] - before
    outcome = judge(answers, unloaded_p50=unloaded, capacity=capacity, gained=gained)
    say(f"overload: {outcome.accepted:,.0f} accepted and {outcome.refused:,.0f} refused of {outcome.offered:,.0f}/s")
    return outcome


def judge(answers: Sequence[Answer], *, unloaded_p50: float, capacity: float, gained: int) -> Overload:
    """What the answers to PRESSURE_SECONDS of overload and CALM_SECONDS after it show.

    `gained` is how many admissions were stored meanwhile. Raises BenchError where other answers came than an overload
    explains, or the load did not reach what it was to be.
    """
    others = {each.status for each in answers} - {204, 503}
    if others:
        raise BenchError(f"under overload there were answers of status {', '.join(map(str, sorted(others)))}")
    steady = [each for each in answers if ONSET_SECONDS <= each.at < PRESSURE_SECONDS]
    seconds = PRESSURE_SECONDS - ONSET_SECONDS
    if len(steady) < LEAST_OFFERED * TIMES * capacity * seconds:
        raise BenchError(f"the load was {len(steady) / seconds:,.0f} requests/s, not {TIMES * capacity:,.0f}")
    accepted, refused = _took(steady, 204), _took(steady, 503)
    return Overload(
        unloaded_p50=unloaded_p50,
        capacity=capacity,
        offered=len(steady) / seconds,
        accepted=len(accepted) / seconds,
        accepted_p50=_percentile(accepted, 50),
        accepted_p99=_percentile(accepted, 99),
        onset_longest=max(_took((each for each in answers if each.at < ONSET_SECONDS), 204), default=0.0),
        refused=len(refused) / seconds,
        refused_p50=_percentile(refused, 50),
        refused_p99=_percentile(refused, 99),
        recovery=recovery(answers, RECOVERED_TIMES * unloaded_p50),
        unheeded=sum(each.status == 503 and each.retry_after == 0 for each in answers),
        missing=len(_took(answers, 204)) - gained,
    )


def recovery(answers: Iterable[Answer], good: float) -> float:
    """Seconds from the end of the pressure until IN_A_ROW are accepted whose median is below `good`; inf for never."""
    calm = sorted(each for each in answers if each.at >= PRESSURE_SECONDS)
    for start in range(len(calm) - IN_A_ROW + 1):
        row = calm[start : start + IN_A_ROW]
        if all(each.status == 204 for each in row) and median(each.took for each in row) < good:
            return row[0].at + row[0].took / 1000 - PRESSURE_SECONDS
    return math.inf


def read(lines: Iterable[str]) -> list[Answer]:
    """The answers that overload.lua tells of."""
    told = [tuple(map(int, line.split())) for line in lines]
    first = min((sent for sent, *_ in told), default=0)
    return [Answer((sent - first) / 1e6, took / 1e3, status, retry_after) for sent, took, status, retry_after in told]


def _send(
    server: Server, folder: Path, connections: int, phases: Sequence[tuple[float, float]], count: int
) -> list[Answer]:
    """Send new events by a schedule: for each phase its seconds and how many are due in each of them."""
    prepared = prepare(folder / "deliveries", count, server.program.key_file.read_bytes(), server.address)
    told = folder / "told"
    seconds = math.ceil(sum(length for length, _ in phases))
    done = subprocess.run(  # noqa: S603 - wrk with the bench's own arguments, no shell
        [
            *(wrk(), "--threads=1", f"--connections={connections}", f"--duration={seconds}s", "--timeout=10s"),
            *(f"--script={SCRIPT}", server.url, "--", str(prepared.path), str(prepared.size), str(prepared.count)),
            *(str(told), *(f"{figure:.6f}" for phase in phases for figure in phase)),
        ],
        capture_output=True,
        text=True,
        timeout=seconds + 30,
        check=False,
    )
    if done.returncode != 0 or "Socket errors" in done.stdout:
        raise BenchError(f"wrk ended with {done.returncode}: {done.stderr.strip()} {done.stdout.strip()[-300:]}")
    return read(told.read_text().splitlines())


def _took(answers: Iterable[Answer], status: int) -> list[float]:
    return [each.took for each in answers if each.status == status]


def _percentile(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else sum(values)
