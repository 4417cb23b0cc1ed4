"""Where the time of a request goes, by function: Gatehouse under the bench's load, looked at from outside by py-spy."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rich.markup import escape
from rich.table import Table

from tools.bench import admission, folded, install, join, kept, load, spy
from tools.bench.admission import Admission
from tools.bench.install import Machine, Replay
from tools.bench.load import Job, play
from tools.bench.servers import BenchError, Server, cpu_seconds, forks, serving, thread_seconds

RECORD_SECONDS: Final = 5
WARM_UP_SECONDS: Final = 2
WARM_UP_RATE: Final = 6_000.0
# So much longer than a recording the load goes on: py-spy takes a moment to find its way in the process.
MARGIN_SECONDS: Final = 3
# A server that has used so much processor time is at the load's work, not at its own.
BUSY_SECONDS: Final = 0.1
LISTED: Final = 12

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An operation under load: `load` keeps the server at work for about so many seconds; raises BenchError."""

    name: str
    work: str
    server: Server
    load: Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What was seen of an operation: shares of its processor time, which is `cpu` of `seconds`.

    `own` is by function without what it calls, `inclusive` with it, for Gatehouse's own functions. Both have the
    greatest first.
    """

    name: str
    work: str
    seconds: float
    cpu: float
    parts: Mapping[str, float]
    own: Mapping[str, float]
    inclusive: Mapping[str, float]

    def table(self) -> Table:
        """The parts, and the functions that take the most."""
        busy = f"{self.cpu / self.seconds:.2f} processors for {self.seconds:.0f} s"
        table = Table(title=f"{self.work}; {busy}")
        table.add_column("share", justify="right")
        table.add_column("")
        for title, shares in {
            "by part": self.parts,
            "function, alone": _greatest(self.own),
            "function of Gatehouse's, with what it calls": _greatest(self.inclusive),
        }.items():
            table.add_section()
            table.add_row("", f"[bold]{title}[/bold]")
            for what, share in shares.items():
                table.add_row(f"{share:.1%}", escape(what))
        return table

    def document(self) -> dict[str, Any]:
        """Shares are of 1."""
        return {
            "name": self.name,
            "work": self.work,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu,
            "part_shares": dict(self.parts),
            "own_shares": _greatest(self.own),
            "inclusive_shares": _greatest(self.inclusive),
        }


def _greatest(shares: Mapping[str, float]) -> dict[str, float]:
    return dict(islice(shares.items(), LISTED))


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """The profile of each operation; `folder` has its flame graph (NAME.svg) and its folded stacks (NAME.txt)."""

    date: str
    folder: Path
    profiles: list[Profile]

    def table(self) -> Table:
        """One table below the other, and where the pictures are."""
        table = Table.grid()
        for profile in self.profiles:
            table.add_row(profile.table())
        table.add_row(f"flame graphs and folded stacks are in {self.folder}")
        return table

    def document(self) -> dict[str, Any]:
        """The figures of the tables."""
        return {
            "date": self.date,
            "folder": str(self.folder),
            "profiles": [profile.document() for profile in self.profiles],
        }

    def failures(self) -> list[str]:
        """None: a profile promises nothing."""
        return []


def measure(folder: Path, say: Say) -> Profiles:
    """Record every operation in turn; raises BenchError where wrk or py-spy is missing or may not do its work."""
    load.wrk()
    spy.py_spy()
    date = kept.now()
    pictures = kept.place(date, "profiles")
    pictures.mkdir()
    profiles = []
    for subject in subjects(folder):
        profiles.append(profile(subject, pictures))
        say(f"profile of {subject.name}: {profiles[-1].cpu:.1f} s of processor time looked at")
    return Profiles(date=date, folder=pictures, profiles=profiles)


def subjects(folder: Path) -> Iterator[Subject]:
    """Each operation as the bench plays it; its server runs until the next is asked for."""
    with serving(admission.gatehouse(folder / "admission")) as server:
        yield by_wrk(Admission(folder), server)
    with join.serving_all(folder / "join", tls=False) as (servers, jobs):
        for job in jobs:
            yield by_wrk(job, servers[0])
    with install.serving_all(folder / "install") as machines:
        yield by_readers(Replay(), machines[0])


def by_wrk(job: Job, server: Server) -> Subject:
    """A job whose load comes from wrk."""
    rate = WARM_UP_RATE

    def ask(seconds: int) -> None:
        nonlocal rate
        rate = play(job, server, seconds=seconds, expected_rate=rate).rate

    return Subject(name=job.name, work=job.work, server=server, load=ask)


def by_readers(job: Replay, machine: Machine) -> Subject:
    """Replays, one after the other."""

    def ask(seconds: int) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job.play(machine)

    return Subject(name=job.name, work=job.work, server=machine.server, load=ask)


def profile(subject: Subject, pictures: Path) -> Profile:
    """Record an operation twice, as pictures and as texts, one of each for the server's fork, and sum up the texts."""
    server = subject.server.pid
    recorded = {subject.name: server} | {f"{subject.name}-commit": fork for fork in forks(server)}
    subject.load(WARM_UP_SECONDS)
    with under_load(subject):
        _record(recorded, "flamegraph", pictures, "svg")
    with under_load(subject):
        before, began = _spent(recorded), time.perf_counter()
        texts = _record(recorded, "raw", pictures, "txt")
        seconds, after = time.perf_counter() - began, _spent(recorded)
    spent = {thread: total - before.get(thread, 0.0) for thread, total in after.items()}
    return summed_up(subject, "".join(text.read_text() for text in texts), seconds, spent)


def _record(pids: Mapping[str, int], form: spy.Format, folder: Path, suffix: str) -> list[Path]:
    """Record processes at the same time, each to the file of its name."""
    files = [folder / f"{name}.{suffix}" for name in pids]
    with ThreadPoolExecutor(len(files)) as pool:
        list(pool.map(lambda pid, file: spy.record(pid, RECORD_SECONDS, form, file), pids.values(), files))
    return files


def _spent(pids: Mapping[str, int]) -> dict[int, float]:
    """The processor time that each of their threads has used so far."""
    return {thread: seconds for pid in pids.values() for thread, seconds in thread_seconds(pid).items()}


def summed_up(subject: Subject, text: str, seconds: float, spent: Mapping[int, float]) -> Profile:
    """The profile of folded stacks, and of the processor time that each thread spent meanwhile."""
    stacks = folded.weighed(folded.parse(text), spent)
    if not stacks:
        raise BenchError(f"{subject.name}: the server was never seen at work, or there is no /proc to ask for its time")
    return Profile(
        name=subject.name,
        work=subject.work,
        seconds=seconds,
        cpu=sum(spent.values()),
        parts=folded.by_part(stacks),
        own=folded.own(stacks),
        inclusive=folded.inclusive(stacks),
    )


@contextmanager
def under_load(subject: Subject) -> Iterator[None]:
    """Run the block while the server is at work; raises BenchError where the load fails."""
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(subject.load, RECORD_SECONDS + MARGIN_SECONDS)
        _wait_for_work(subject.server.pid, going)
        yield
        going.result()


def _wait_for_work(pid: int, going: Future[None]) -> None:
    before = cpu_seconds(pid) or 0.0
    while not going.done() and (cpu_seconds(pid) or 0.0) < before + BUSY_SECONDS:
        time.sleep(0.02)
