"""One reader that takes an install's whole history over TLS, of a hundred events and of a million.

Each round starts the server anew, so that nothing is in its memory yet; the folders are measured in turns.
"""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from tools.bench import programs
from tools.bench.growth.filling import fill_events
from tools.bench.growth.parts import Column, Part, Promise, difference, megabytes, quotient
from tools.bench.install import COMMENT_SECONDS, Machine, Spent
from tools.bench.servers import BenchError, Program, peak_memory, serving
from tools.bench.streams import take_until, understood
from tools.state import StateFolder

EVENTS: Final = (100, 10_000, 1_000_000)
ROUNDS: Final = 5
# How often a history is taken again in a round: short replays say little one by one.
AGAIN_EVENTS: Final = 100_000
MOST_AGAIN: Final = 20

COLUMNS: Final = (
    Column("first", "first event ms", 1),
    Column("whole", "whole ms", 1),
    Column("rate", "events/s"),
    Column("load_share", "load's share", 2),
    Column("again", "again: events/s"),
    Column("cpu", "CPU µs/event", 2),
    Column("start", "start s", 2),
    Column("peak", "peak MB"),
)
NOTE: Final = (
    "The first figures are of the first replay after a start, when nothing of the history is in the server's memory;"
    " then it is taken again. A page of 256 events is read from the database, framed and sent, and kept while the pages"
    " that were used since come to less than 8 MB: a shorter history comes from memory the second time, a longer one"
    " never. Beside that a replay's time grows with its length alone. Of a hundred events it is the request's."
)


@dataclass(frozen=True, slots=True)
class Replayed:
    """One replay: milliseconds to its first event and to its end, seconds of processor time, of all but the reader's.

    The server's processor time is None where it is not known.
    """

    first: float
    whole: float
    cpu: float | None
    load_cpu: float


@dataclass(frozen=True, slots=True)
class Visit:
    """A server that was started, asked for its whole history, and for it again.

    Until its first answer it took `start` seconds; `peak` is the most bytes that it had in memory, None where that is
    not known.
    """

    first: Replayed
    again: Sequence[Replayed]
    start: float
    peak: int | None


def measure(folder: Path, say: Callable[[str], None], events: Sequence[int] = EVENTS) -> Part:
    """Fill a state folder for each number of events, and measure their servers."""
    folder.mkdir()
    return play_rounds(fill(folder, events, say), say)


def fill(folder: Path, events: Sequence[int], say: Callable[[str], None]) -> dict[int, Program]:
    """A program for each number of events, whose folder has an install with as many."""
    made = {}
    for count in events:
        made[count] = installer(folder / str(count), count)
        say(f"growth: {count:,} events stored")
    return made


def installer(folder: Path, events: int) -> Program:
    """Gatehouse's installer listener on a folder with so many events."""
    settings = {"installer": {"commentSeconds": COMMENT_SECONDS}}
    program = replace(programs.gatehouse(folder, "installer", tls=True, settings=settings), name=f"{events:,} events")
    # The first start of a folder makes its database.
    with serving(program):
        pass
    fill_events(program, events)
    return program


@contextmanager
def installing(program: Program, events: int) -> Iterator[Machine]:
    """Run a program that `installer` has made."""
    state = StateFolder(program.folder)
    trust = ssl.create_default_context(cafile=str(state.authority_certificate))
    with serving(program) as server:
        yield Machine(server, state.install_code.read_text().strip(), trust, state.install_plan, events)


def play_rounds(made: Mapping[int, Program], say: Callable[[str], None], *, rounds: int = ROUNDS) -> Part:
    """Play A B C A B C, so that a drifting machine hurts all alike."""
    visits: dict[int, list[Visit]] = {events: [] for events in made}
    for number in range(1, rounds + 1):
        for events, program in made.items():
            visits[events].append(outcome := _visit(program, events))
            say(f"growth, round {number}: the first replay of {events:,} events took {outcome.first.whole:,.0f} ms")
    return part(visits)


def _visit(program: Program, events: int) -> Visit:
    with installing(program, events) as machine:
        first = replay(machine, events)
        again = [replay(machine, events) for _ in range(max(1, min(MOST_AGAIN, AGAIN_EVENTS // events)))]
        return Visit(first, again, machine.server.first_answer, peak_memory(machine.server.pid))


def replay(machine: Machine, events: int) -> Replayed:
    """Have one reader take the last events of a history; raises BenchError where they are not as many."""
    after = machine.last - events
    with machine.reading(1) as [reader]:
        spent = Spent.so_far(machine.server)
        began = time.time_ns() / 1e6
        reader.ask(machine.code, after)
        looking = take_until(lambda each: each.ended, [reader])
        cpu, load_cpu = spent.since(looking)
        frames, [chunks] = understood([reader], after)
    if len(frames) != events:
        raise BenchError(f"{machine.server.program.name}: {len(frames)} events came of {events}")
    [first] = reader.arrivals(chunks, frames[:1])
    return Replayed(first=first - began, whole=reader.times[-1] / 1e6 - began, cpu=cpu, load_cpu=load_cpu)


def part(visits: Mapping[int, Sequence[Visit]]) -> Part:
    """The table, and what is promised of the longest history beside the others."""
    rows = {f"{events:,} events": _row(events, found) for events, found in visits.items()}
    (least, shortest), *_, (fewer, middle), (most, longest) = rows.items()
    return Part(
        title="streamInstallEvents by the length of the history, one reader of all of it, TLS",
        columns=COLUMNS,
        rows=rows,
        promises=[
            Promise(
                f"first replay's events/s, {most} against {fewer}",
                quotient(longest["rate"], middle["rate"]),
                "at least",
                0.7,
                "each page costs the same wherever it is; a reader that keeps a hundred times as much may be slower",
            ),
            Promise(
                f"ms to the first event, {most} more than {least}",
                difference(longest["first"], shortest["first"]),
                "at most",
                10,
                "only the first page is read before it, which has more events than the shortest history",
            ),
            Promise(
                f"peak MB, {most} more than {least}",
                difference(longest["peak"], shortest["peak"]),
                "at most",
                40,
                "8 MB of pages are kept; the rest is for their events as Python has them, and the answer under way",
            ),
        ],
        note=NOTE,
    )


def _row(events: int, visits: Sequence[Visit]) -> dict[str, float | None]:
    whole = median(each.first.whole for each in visits)
    again = [replayed for each in visits for replayed in each.again]
    peaks = [each.peak for each in visits if each.peak is not None]
    return {
        "events": events,
        "first": median(each.first.first for each in visits),
        "whole": whole,
        "rate": events / whole * 1e3,
        "load_share": median(each.first.load_cpu / each.first.whole * 1e3 for each in visits),
        "again": events / median(each.whole for each in again) * 1e3,
        "cpu": _cpu(events, [*again, *(each.first for each in visits)]),
        "start": median(each.start for each in visits),
        "peak": megabytes(max(peaks, default=None)),
    }


def _cpu(events: int, replays: Sequence[Replayed]) -> float | None:
    """Microseconds for each event, of all replays together: the system counts in hundredths of a second."""
    spent = [each.cpu for each in replays if each.cpu is not None]
    return sum(spent) / len(spent) / events * 1e6 if spent else None
