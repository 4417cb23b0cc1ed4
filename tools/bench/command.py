"""The bench from beginning to end: start the servers, play interleaved rounds, measure start and memory, report."""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from rich.console import Console

from tools.bench import admission, execution, install, join, kept, load, plot
from tools.bench.admission import Admission
from tools.bench.document import document
from tools.bench.execution import Execution
from tools.bench.load import Job, Round, play
from tools.bench.report import Memory, Played, Result, runs_held
from tools.bench.servers import BenchError, Server, memory_of_forks, peak_memory, serving
from tools.bench.tables import show, show_runs

WARM_UP_SECONDS: Final = 2
WARM_UP_RATE: Final = 6_000.0
WAVE_SECONDS: Final = 5
MEMORY_EVENTS: Final = 100_000
# Deliveries are good for thirty seconds, which must hold the preparing and the round.
LONGEST_ROUND: Final = 10
# Of installs: half a million events are sent in each round of theirs, and more.
MOST_INSTALL_ROUNDS: Final = 3
MOST_INSTALL_SECONDS: Final = 2

Part = Literal["admit", "execution", "join", "install"]
PARTS: Final[tuple[Part, ...]] = ("admit", "execution", "join", "install")

Say = Callable[[str], None]


def run(
    parts: Collection[Part] = PARTS, *, rounds: int = 5, seconds: int = 4, runs: int = 1, as_json: bool = False
) -> int:
    """Measure so many times over, print tables (or the JSON document), keep document and plot in bench-results/.

    Returns the exit code: 0 where every budget is held in every run, 1 where one is not or the bench cannot measure.
    """
    progress, output = Console(stderr=True), Console(quiet=as_json)
    results: list[Result] = []
    try:
        for _ in range(runs):
            measured = measure(parts, rounds=rounds, seconds=seconds, say=progress.print)
            # What runs before a later one is this bench.
            results.append(replace(measured, load_average=results[0].load_average) if results else measured)
            show(results[-1], output)
            # After each run: they take long, and the next may be broken off.
            file = kept.keep(document(results))
    except BenchError as error:
        progress.print(f"[red]{error}[/red]")
        return 1
    if runs > 1:
        show_runs(results, output)
    if as_json:
        Console().print_json(file.read_text())
    output.print(f"kept in {file}")
    redraw(file)
    return 0 if runs_held(results) == runs else 1


def redraw(file: Path) -> int:
    """Make the plot of a kept document beside it and say so on standard error, or why there is none.

    Returns the exit code: 0, or 1 where there is none.
    """
    progress, picture = Console(stderr=True), file.with_suffix(".png")
    try:
        plot.draw(kept.read(file), picture)
    except BenchError as error:
        progress.print(str(error))
        return 1
    progress.print(f"plot in {picture}")
    return 0


def measure(parts: Collection[Part], *, rounds: int, seconds: int, say: Say) -> Result:
    """All measurements of one run; raises BenchError where one cannot be trusted."""
    if seconds > LONGEST_ROUND:
        raise BenchError(f"a round lasts at most {LONGEST_ROUND} s: deliveries are good for thirty")
    if set(parts) - {"install"}:
        load.wrk()
    load_average = os.getloadavg()[0]
    played: list[Played] = []
    first_answer: dict[str, float] = {}
    memory = None
    with kept.work_folder() as folder:
        if "admit" in parts:
            played.append(measure_admission(folder, rounds=rounds, seconds=seconds, say=say))
            first_answer, memory = measure_gatehouse(folder, say)
        if "execution" in parts:
            played.append(measure_execution(folder, rounds=rounds, seconds=seconds, say=say))
        if "join" in parts:
            for way in ("tls", "http"):
                played += measure_join(folder / way, tls=way == "tls", rounds=rounds, seconds=seconds, say=say)
        if "install" in parts:
            played += measure_install(folder / "install", rounds=rounds, seconds=seconds, say=say)
    return Result(date=kept.now(), played=played, first_answer=first_answer, memory=memory, load_average=load_average)


def measure_admission(folder: Path, *, rounds: int, seconds: int, say: Say) -> Played:
    """The rounds of the admission."""
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(program)) for program in admission.all_programs(folder)]
        return play_rounds(Admission(folder), servers, rounds=rounds, seconds=seconds, say=say)


def measure_execution(folder: Path, *, rounds: int, seconds: int, say: Say) -> Played:
    """The rounds of the admission with execution and without."""
    job = Execution(folder)
    return Played(
        name=job.name,
        work=job.work,
        note=job.note,
        budgets=job.budgets,
        rounds=execution.play_rounds(job, rounds=rounds, seconds=seconds, say=say),
    )


def measure_join(folder: Path, *, tls: bool, rounds: int, seconds: int, say: Say) -> list[Played]:
    """The rounds of the join's batches, all on the same servers."""
    with join.serving_all(folder, tls=tls) as (servers, jobs):
        return [play_rounds(job, servers, rounds=rounds, seconds=seconds, say=say) for job in jobs]


def measure_install(folder: Path, *, rounds: int, seconds: int, say: Say) -> list[Played]:
    """The rounds of the installs' streams, all on the same servers."""
    jobs = (install.Replay(), install.Live(min(seconds, MOST_INSTALL_SECONDS)))
    with install.serving_all(folder) as machines:
        return [
            Played(
                name=job.name,
                work=job.work,
                note=job.note,
                budgets=job.budgets,
                rounds=install.play_rounds(job, machines, rounds=min(rounds, MOST_INSTALL_ROUNDS), say=say),
                unit="event",
            )
            for job in jobs
        ]


def play_rounds(job: Job, servers: Sequence[Server], *, rounds: int, seconds: int, say: Say) -> Played:
    """Warm up every server, then play A B C A B C, so that a drifting machine hurts all alike."""
    played: dict[str, list[Round]] = {server.program.name: [] for server in servers}
    expected = {}
    for server in servers:
        outcome = play(job, server, seconds=WARM_UP_SECONDS, expected_rate=WARM_UP_RATE)
        expected[server.program.name] = outcome.rate
    for number in range(1, rounds + 1):
        for server in servers:
            name = server.program.name
            outcome = play(job, server, seconds=seconds, expected_rate=expected[name])
            expected[name] = max(expected[name], outcome.rate)
            played[name].append(outcome)
            say(f"{job.name}, round {number}: {name} {outcome.rate:,.0f} requests/s")
    return Played(name=job.name, work=job.work, note=job.note, budgets=job.budgets, rounds=played)


def measure_gatehouse(folder: Path, say: Say) -> tuple[dict[str, float], Memory]:
    """Seconds to the first answer, in a state folder just made and again later; peak memory of the first of the two."""
    program = admission.gatehouse(folder / "memory")
    with serving(program) as server:
        first = server.first_answer
        events = admit_events(server, MEMORY_EVENTS, folder)
        memory = Memory(events=events, peak_bytes=peak_memory(server.pid), fork_bytes=memory_of_forks(server.pid))
    say(f"memory: {events:,} events admitted")
    with serving(program) as server:
        again = server.first_answer
    return {"start in a new folder": first, f"start with {MEMORY_EVENTS:,} runs": again}, memory


def admit_events(server: Server, wanted: int, scratch: Path) -> int:
    """Send waves of events until `wanted` are admitted; returns how many were."""
    admitted, expected = 0, WARM_UP_RATE
    while admitted < wanted:
        outcome = play(Admission(scratch), server, seconds=WAVE_SECONDS, expected_rate=expected)
        admitted, expected = admitted + outcome.requests, outcome.rate
    return admitted
