"""Results as tables for people."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from tools.bench.load import Round
from tools.bench.report import Played, Result, failures, limits, over_runs, ratios, runs_held

# From this load average on, before the bench has begun, figures say more of the machine than of the servers.
BUSY: Final = 0.5
# Of one processor's time.
LOAD_SHARE: Final = 0.8


def show(result: Result, console: Console) -> None:
    """Print the tables of a run."""
    for played in result.played:
        console.print(_servers(played, result.date))
        console.print(_ratios(played))
        for line in (*_since_written(played), *_carried(played)):
            console.print(line, highlight=False)
        console.print(f"{played.note}\n", highlight=False)
    for promise in limits(result):
        console.print(str(promise))
    if result.memory:
        console.print(f"events admitted meanwhile: {result.memory.events:,}")
        console.print(f"the process that commits, beside what it shares: {_most([result.memory.fork_bytes])}")
    for line in failures(result):
        console.print(f"[red]not held: {line}[/red]")
    for line in _overworked(result):
        console.print(f"[yellow]{line}[/yellow]")
    if result.load_average > BUSY:
        console.print(
            f"[yellow]other work was running (load average {result.load_average:.1f}): measure again[/yellow]"
        )


def show_runs(results: Sequence[Result], console: Console) -> None:
    """Print in how many of the runs each floor and limit was held, and in how many all of them were."""
    table = Table(title=f"{len(results)} runs, {results[0].date} to {results[-1].date}")
    table.add_column("floor or limit")
    for column in ("asked", "least", "greatest", "held in runs"):
        table.add_column(column, justify="right")
    for what, same in over_runs(results).items():
        values, held = [each.value for each in same], sum(each.holds for each in same)
        colour = "green" if held == len(same) else "red"
        figures = [f"{value:.2f}{same[0].unit}" for value in (min(values), max(values))]
        table.add_row(what, same[0].asked, *figures, f"[{colour}]{held} of {len(same)}[/{colour}]")
    console.print(table)
    console.print(f"floors held in {runs_held(results)} runs of {len(results)}")


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
