"""What the rounds say: medians with their spread, ratios against floors and aims, as tables and as JSON."""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tools.bench.budgets import Budget, Figure
from tools.bench.load import Round

START_SECONDS: Final = 2.0
MEMORY_BYTES: Final = 150_000_000
# From this load average on, before the bench has begun, figures say more of the machine than of the servers.
BUSY: Final = 0.5
# Of one processor's time.
LOAD_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The peak memory of Gatehouse over so many admitted events; None where the system does not tell."""

    events: int
    peak_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A job as it was played: `rounds` has each server's rounds in the order of play, `unit` is what they count."""

    name: str
    work: str
    note: str
    budgets: Sequence[Budget]
    rounds: Mapping[str, Sequence[Round]]
    unit: str = "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that one run of the bench has measured."""

    date: str
    played: Sequence[Played]
    first_answer: Mapping[str, float]
    memory: Memory | None
    load_average: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A budget as it was met: the ratio of the medians, and the least and greatest ratio of one round."""

    budget: Budget
    value: float
    least: float
    greatest: float

    @property
    def holds(self) -> bool:
        """Whether the floor is reached."""
        return self.value >= self.budget.floor


def rate(rounds: Sequence[Round]) -> float:
    """The median of the rounds' rates, in requests or events a second."""
    return median(each.rate for each in rounds)


def ratios(played: Played) -> list[Ratio]:
    """Every budget of a job."""
    found = []
    for budget in played.budgets:
        # Of delays the longer is the worse.
        of, against = (budget.of, budget.against) if budget.figure == "rate" else (budget.against, budget.of)
        above, below = ([_figure(each, budget.figure) for each in played.rounds[name]] for name in (of, against))
        by_round = [a / b for a, b in zip(above, below, strict=True)]
        value = median(above) / median(below)
        found.append(Ratio(budget=budget, value=value, least=min(by_round), greatest=max(by_round)))
    return found


def _figure(outcome: Round, figure: Figure) -> float:
    return {"rate": outcome.rate, "p50": outcome.p50, "p99": outcome.p99}[figure]


def failures(result: Result) -> list[str]:
    """One line for each budget that is not held."""
    lines = [
        f"{played.name}: {each.budget.name} is {each.value:.2f}, its floor {each.budget.floor:g}"
        for played in result.played
        for each in ratios(played)
        if not each.holds
    ]
    lines += [
        f"gatehouse took {seconds:.2f} s to {name}, {START_SECONDS:g} s are allowed"
        for name, seconds in result.first_answer.items()
        if seconds > START_SECONDS
    ]
    memory = result.memory
    if memory and memory.peak_bytes and memory.peak_bytes > MEMORY_BYTES:
        lines.append(f"gatehouse used {memory.peak_bytes / 1e6:.0f} MB, {MEMORY_BYTES / 1e6:.0f} MB are allowed")
    return lines


def document(result: Result) -> dict[str, Any]:
    """The result as JSON: the rounds as they were, the ratios, and the machine."""
    return {
        **asdict(result),
        "played": [_played(each) for each in result.played],
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "failures": failures(result),
    }


def _played(played: Played) -> dict[str, Any]:
    return {
        **asdict(played),
        "rates": {name: rate(rounds) for name, rounds in played.rounds.items()},
        "ratios": [asdict(each) | {"holds": each.holds} for each in ratios(played)],
    }


def show(result: Result, console: Console) -> None:
    """Print the tables."""
    for played in result.played:
        console.print(_servers(played, result.date))
        console.print(_ratios(played))
        for line in (*_since_written(played), *_carried(played)):
            console.print(line, highlight=False)
        console.print(f"{played.note}\n", highlight=False)
    for name, seconds in result.first_answer.items():
        console.print(f"gatehouse, {name}: {seconds:.2f} s (at most {START_SECONDS:g})")
    if result.memory and result.memory.peak_bytes:
        used, allowed = result.memory.peak_bytes / 1e6, MEMORY_BYTES / 1e6
        console.print(
            f"gatehouse, peak memory over {result.memory.events:,} events: {used:.0f} MB (at most {allowed:.0f})"
        )
    for line in failures(result):
        console.print(f"[red]{line}[/red]")
    for line in _overworked(result):
        console.print(f"[yellow]{line}[/yellow]")
    if result.load_average > BUSY:
        console.print(
            f"[yellow]other work was running (load average {result.load_average:.1f}): measure again[/yellow]"
        )


def _overworked(result: Result) -> list[str]:
    """One line for each server whose load may have measured itself: it has one thread."""
    return [
        f"{played.name}: the load of {name} had no time left, and may be what was measured"
        for played in result.played
        for name, rounds in played.rounds.items()
        if median(each.load_cpu / each.seconds for each in rounds) > LOAD_SHARE
    ]


def _since_written(played: Played) -> list[str]:
    """One line for each server of whose events it is known when they came about."""
    lines = []
    for name, rounds in played.rounds.items():
        if delays := [each.since_written for each in rounds if each.since_written]:
            half, most = (median(values) for values in zip(*delays, strict=True))
            lines.append(f"{name}, from the writing of a line to a reader: p50 {half:.1f} ms, p99 {most:.1f} ms")
    return lines


def _carried(played: Played) -> list[str]:
    """Two lines for each server that carried out runs: how many, and the memory that it took."""
    lines = []
    for name, rounds in played.rounds.items():
        if carried := [each.carried for each in rounds if each.carried]:
            during, after = median(each.during for each in carried), median(each.after for each in carried)
            server, executor = (
                _most(each.server_peak for each in carried),
                _most(each.executor_peak for each in carried),
            )
            lines.append(f"{name}, runs carried out: {during:,.0f} a second during the rounds, {after:,.0f} after them")
            lines.append(f"{name}, peak memory: {server} the server, {executor} the executor")
    return lines


def _most(peaks: Iterable[int | None]) -> str:
    known = [peak for peak in peaks if peak is not None]
    return f"{max(known) / 1e6:.0f} MB" if known else "unknown"


def _servers(played: Played, date: str) -> Table:
    table = Table(title=f"{played.work}; {date}")
    table.add_column("server")
    for column in (f"{played.unit}s/s", "least", "greatest", "p50 ms", "p99 ms", f"CPU µs/{played.unit}"):
        table.add_column(column, justify="right")
    for name, rounds in played.rounds.items():
        rates = [each.rate for each in rounds]
        figures = [f"{value:,.0f}" for value in (median(rates), min(rates), max(rates))]
        figures += [f"{median(values):.1f}" for values in zip(*((each.p50, each.p99) for each in rounds), strict=True)]
        table.add_row(name, *figures, _cpu(rounds))
    return table


def _cpu(rounds: Sequence[Round]) -> str:
    spent = [each.cpu / each.requests for each in rounds if each.cpu is not None]
    return f"{median(spent) * 1e6:,.{0 if median(spent) >= 1e-4 else 2}f}" if spent else "unknown"


def _ratios(played: Played) -> Table:
    table = Table()
    table.add_column("ratio of the medians")
    for column in ("", "least", "greatest", "floor", "aim", "floor held"):
        table.add_column(column, justify="right")
    for each in ratios(played):
        figures = (each.value, each.least, each.greatest)
        table.add_row(
            each.budget.name,
            *(f"{value:.2f}" for value in figures),
            f"{each.budget.floor:g}",
            f"{each.budget.aim:g}",
            "[green]yes[/green]" if each.holds else "[red]no[/red]",
        )
    return table
