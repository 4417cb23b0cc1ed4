"""One reader, a hundred, and two thousand: of a history all at once, and of an install as it goes on."""

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Final

from tools.bench.growth.parts import Column, Part, Promise, difference, megabytes, quotient
from tools.bench.growth.replays import installer, installing
from tools.bench.install import OTHER_EVENTS, Machine, Spent, percentile
from tools.bench.load import Round
from tools.bench.servers import BenchError, Program, peak_memory
from tools.bench.streams import take_until, understood

# Memory and delays are told against the first and the last but one.
READERS: Final = (1, 100, 2_000)
EVENTS: Final = 1_000
REPLAYS: Final = 3
# So slow that two thousand readers can be served before the next line comes.
LINES_A_SECOND: Final = 10
LIVE_SECONDS: Final = 4
# What a server and the bench have open beside the readers' connections, and more.
OTHER_FILES: Final = 500

COLUMNS: Final = (
    Column("rate", "replay: events/s"),
    Column("whole", "last reader's end ms"),
    Column("cpu", "CPU µs/event", 2),
    Column("load_share", "load's share", 2),
    Column("p50", "live: p50 ms", 1),
    Column("p99", "p99 ms", 1),
    Column("live_cpu", "CPU µs/event", 1),
    Column("live_load_share", "load's share", 2),
    Column("peak", "peak MB"),
    Column("each", "KB/reader"),
)
NOTE: Final = (
    f"Replays are of {EVENTS:,} events, live are {LINES_A_SECOND} lines a second for {LIVE_SECONDS} s; p50 and p99 are"
    " from an event's commit to a reader. An event is framed once for all readers, but encrypted and sent for each, by"
    " one thread: with so many the last gets a line when all others have it, and the delay grows with their number. The"
    " load is one thread too, whose share is of one processor. Of a reader's memory some 50 KB are its connection with"
    " TLS, 40 the request and the tasks that serve it, and the rest what of the answer its client has not taken."
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A server with so many readers: replays, a live install, and its peak memory in bytes."""

    readers: int
    replays: Sequence[Round]
    live: Round
    peak: int | None

    @property
    def name(self) -> str:
        """How the table names it."""
        return f"{self.readers:,} {'reader' if self.readers == 1 else 'readers'}"


def measure(folder: Path, say: Callable[[str], None], readers: Sequence[int] = READERS) -> Part:
    """Measure a server for each number of readers, each on a folder of its own."""
    folder.mkdir()
    made = {count: installer(folder / str(count), EVENTS) for count in readers}
    with files(max(readers) + OTHER_FILES):
        return part([_measure(program, count, say) for count, program in made.items()])


@contextmanager
def files(count: int) -> Iterator[None]:
    """Let this process, and those it starts, have so many files open; raises BenchError where the system forbids it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        yield
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise BenchError(f"{count} files have to be open at once, {hard} may be: raise the limit (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _measure(program: Program, count: int, say: Callable[[str], None]) -> Measured:
    with installing(program, EVENTS) as machine:
        replays = [replay(machine, count) for _ in range(REPLAYS)]
        live = follow(machine, count)
        peak = peak_memory(machine.server.pid)
    whole = median(each.longest for each in replays)
    say(f"growth: {count:,} readers had their replay within {whole:,.0f} ms, live p99 {live.p99:,.1f} ms")
    return Measured(count, replays, live, peak)


def replay(machine: Machine, count: int) -> Round:
    """Have so many readers take the history at once, on connections that are there already."""
    with machine.reading(count) as all_readers:
        spent = Spent.so_far(machine.server)
        began = time.time_ns()
        for reader in all_readers:
            reader.ask(machine.code, machine.last - EVENTS)
        looking = take_until(lambda each: each.ended, all_readers)
        cpu, load_cpu = spent.since(looking)
        frames, _ = understood(all_readers, machine.last - EVENTS)
    _expect(len(frames), EVENTS)
    ends = sorted((reader.times[-1] - began) / 1e6 for reader in all_readers)
    return _round(EVENTS * count, ends[-1] / 1e3, ends, cpu, load_cpu)


def follow(machine: Machine, count: int) -> Round:
    """Have so many readers follow an install, which writes its first line once each has the beginning of its stream."""
    machine.go.unlink(missing_ok=True)
    lines = LINES_A_SECOND * LIVE_SECONDS
    machine.start(lines, LINES_A_SECOND, machine.go)
    with machine.reading(count) as all_readers:
        for reader in all_readers:
            reader.ask(machine.code, machine.last)
        take_until(lambda each: each.opened, all_readers)
        spent = Spent.so_far(machine.server)
        began = time.time_ns()
        machine.go.touch()
        looking = take_until(lambda each: each.ended, all_readers)
        cpu, load_cpu = spent.since(looking)
        frames, chunks = understood(all_readers, machine.last)
    _expect(len(frames), lines + OTHER_EVENTS)
    machine.last += len(frames)
    logs = [frame for frame in frames if frame.type == "log"]
    committed = [frame.committed for frame in logs]
    arrivals = (reader.arrivals(own, logs) for reader, own in zip(all_readers, chunks, strict=True))
    delays = sorted(chain.from_iterable(map(float.__sub__, each, committed) for each in arrivals))
    seconds = (max(reader.times[-1] for reader in all_readers) - began) / 1e9
    return _round(len(frames) * count, seconds, delays, cpu, load_cpu)


def _expect(events: int, expected: int) -> None:
    if events != expected:
        raise BenchError(f"{events} events came of {expected}")


def _round(events: int, seconds: float, ordered: Sequence[float], cpu: float | None, load_cpu: float) -> Round:
    p50, p99 = percentile(ordered, 50), percentile(ordered, 99)
    return Round(requests=events, seconds=seconds, p50=p50, p99=p99, longest=ordered[-1], cpu=cpu, load_cpu=load_cpu)


def part(found: Sequence[Measured]) -> Part:
    """The table, and what is promised of the most readers."""
    alone = found[0]
    rows = {each.name: _row(each, alone) for each in found}
    *_, (fewer, few), (most, many) = rows.items()
    return Part(
        title="streamInstallEvents by the number of readers, TLS",
        columns=COLUMNS,
        rows=rows,
        promises=[
            Promise(
                f"replayed events/s, {most} against {fewer}",
                quotient(many["rate"], few["rate"]),
                "at least",
                0.5,
                "more connections than a processor's caches hold the state of, here and in the load",
            ),
            Promise(
                f"live processor time an event and reader, {most} against {fewer}",
                quotient(many["live_cpu"], few["live_cpu"]),
                "at most",
                1.5,
                "to send an event to one reader costs the same however many others there are",
            ),
            Promise(
                f"KB of memory for each of {most}",
                many["each"],
                "at most",
                250,
                "its TLS connection, the task that serves it, and what its client has not taken yet, which is bounded",
            ),
        ],
        note=NOTE,
    )


def _row(measured: Measured, alone: Measured) -> dict[str, float | None]:
    replays, live = measured.replays, measured.live
    more = difference(megabytes(measured.peak), megabytes(alone.peak))
    return {
        "readers": measured.readers,
        "rate": median(each.rate for each in replays),
        "whole": median(each.longest for each in replays),
        "cpu": _cpu(replays),
        "load_share": median(each.load_cpu / each.seconds for each in replays),
        "p50": live.p50,
        "p99": live.p99,
        "live_cpu": _cpu([live]),
        "live_load_share": live.load_cpu / live.seconds,
        "peak": megabytes(measured.peak),
        "each": None if measured is alone or more is None else more * 1e3 / (measured.readers - alone.readers),
    }


def _cpu(rounds: Sequence[Round]) -> float | None:
    """Microseconds for each event that was sent to a reader."""
    spent = [each.cpu for each in rounds if each.cpu is not None]
    return sum(spent) / sum(each.requests for each in rounds) * 1e6 if spent else None
