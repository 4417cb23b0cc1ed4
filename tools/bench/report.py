"""What the rounds say: medians with their spread, ratios against floors and aims, as a table and as JSON."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tools.bench.load import CONNECTIONS, Round


@dataclass(frozen=True, slots=True)
class Budget:
    """A ratio of two servers' rates that has to be reached (floor), and one that is hoped for (aim)."""

    of: str
    against: str
    floor: float
    aim: float


BUDGETS: Final = (Budget("gatehouse", "fastapi", 7, 20), Budget("gatehouse", "limit", 0.5, 1.5))
START_SECONDS: Final = 2.0
MEMORY_BYTES: Final = 150_000_000
# From this load average on, before the bench has begun, figures say more of the machine than of the servers.
BUSY: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The peak memory of Gatehouse over so many admitted events; None where the system does not tell."""

    events: int
    peak_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that one run of the bench has measured; `rounds` has each server's rounds in the order of play."""

    date: str
    rounds: Mapping[str, Sequence[Round]]
    first_answer: Mapping[str, float]
    memory: Memory | None
    load_average: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A budget as it was met: the ratio of the median rates, and the least and greatest ratio of one round."""

    budget: Budget
    value: float
    least: float
    greatest: float

    @property
    def holds(self) -> bool:
        """Whether the floor is reached."""
        return self.value >= self.budget.floor


def rate(rounds: Sequence[Round]) -> float:
    """The median of the rounds' rates, in requests a second."""
    return median(each.rate for each in rounds)


def ratios(result: Result) -> list[Ratio]:
    """Every budget both of whose servers were measured."""
    found = []
    for budget in BUDGETS:
        ours, theirs = result.rounds.get(budget.of), result.rounds.get(budget.against)
        if ours and theirs:
            by_round = [a.rate / b.rate for a, b in zip(ours, theirs, strict=True)]
            value = rate(ours) / rate(theirs)
            found.append(Ratio(budget=budget, value=value, least=min(by_round), greatest=max(by_round)))
    return found


def failures(result: Result) -> list[str]:
    """One line for each budget that is not held."""
    lines = [
        f"{each.budget.of}/{each.budget.against} is {each.value:.2f}, its floor {each.budget.floor:g}"
        for each in ratios(result)
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
        "work": f"admitEvent, 1 KB, unique events, durable, {CONNECTIONS} connections",
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "rates": {name: rate(rounds) for name, rounds in result.rounds.items()},
        "ratios": [asdict(each) | {"holds": each.holds} for each in ratios(result)],
        "failures": failures(result),
    }


def show(result: Result, console: Console) -> None:
    """Print the tables."""
    console.print(_servers(result))
    console.print(_ratios(result))
    for name, seconds in result.first_answer.items():
        console.print(f"gatehouse, {name}: {seconds:.2f} s (at most {START_SECONDS:g})")
    if result.memory and result.memory.peak_bytes:
        used, allowed = result.memory.peak_bytes / 1e6, MEMORY_BYTES / 1e6
        console.print(
            f"gatehouse, peak memory over {result.memory.events:,} events: {used:.0f} MB (at most {allowed:.0f})"
        )
    for line in failures(result):
        console.print(f"[red]{line}[/red]")
    if result.load_average > BUSY:
        console.print(
            f"[yellow]other work was running (load average {result.load_average:.1f}): measure again[/yellow]"
        )


def _servers(result: Result) -> Table:
    table = Table(title=f"admitEvent, 1 KB, unique, durable, {CONNECTIONS} connections; {result.date}")
    table.add_column("server")
    for column in ("requests/s", "least", "greatest", "p50 ms", "p99 ms", "CPU µs/request"):
        table.add_column(column, justify="right")
    for name, rounds in result.rounds.items():
        rates = [each.rate for each in rounds]
        figures = [f"{value:,.0f}" for value in (median(rates), min(rates), max(rates))]
        figures += [f"{median(values):.1f}" for values in zip(*((each.p50, each.p99) for each in rounds), strict=True)]
        table.add_row(name, *figures, _cpu(rounds))
    return table


def _cpu(rounds: Sequence[Round]) -> str:
    spent = [each.cpu / each.requests for each in rounds if each.cpu is not None]
    return f"{median(spent) * 1e6:,.0f}" if spent else "unknown"


def _ratios(result: Result) -> Table:
    table = Table()
    table.add_column("ratio of the medians")
    for column in ("", "least", "greatest", "floor", "aim", "floor held"):
        table.add_column(column, justify="right")
    for each in ratios(result):
        figures = (each.value, each.least, each.greatest)
        table.add_row(
            f"{each.budget.of}/{each.budget.against}",
            *(f"{value:.2f}" for value in figures),
            f"{each.budget.floor:g}",
            f"{each.budget.aim:g}",
            "[green]yes[/green]" if each.holds else "[red]no[/red]",
        )
    return table
