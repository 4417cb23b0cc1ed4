"""The jobs of the installer listener: send the history of an install to many readers, and an install as it goes on."""

import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final

import httpx
import yaml

from tools.bench import programs
from tools.bench.budgets import Budget
from tools.bench.load import Round
from tools.bench.programs import PEERS
from tools.bench.servers import BenchError, Program, Server, cpu_seconds, serving
from tools.bench.streams import Reader, readers, take_until, understood
from tools.state import StateFolder

READERS: Final = 100
EVENTS: Final = 5_000
LINES_A_SECOND: Final = 2_000
# Beside its lines an install of the bench has a step's begin and end, and a verdict.
OTHER_EVENTS: Final = 3
# No round is so long that a comment would come amid one: of those each server has its own.
COMMENT_SECONDS: Final = 3_600
CONFIG: Final[Mapping[str, Any]] = {
    "role": "founder",
    "hostname": "node-1.example",
    "mgmt": {"address": "192.0.2.11/24", "gateway": "192.0.2.1"},
    "links": [{"interface": "enp3s0"}],
    "disks": [{"device": "/dev/sda", "confirm": "/dev/sda"}],
    "network": {"floatingIpCidrs": ["198.51.100.0/24"]},
}
NOTE: Final = (
    "fastapi has each event as a row of columns, and sends a page or a commit at once; limit keeps all frames in memory"
    " and sends no comments. The peers know of no lock against guessing the code, and write no audit."
)


@dataclass(slots=True)
class Machine:
    """A server that runs installs; `last` is the id of its last event, `go` the file that an install waits for."""

    server: Server
    code: str
    trust: ssl.SSLContext
    plan: Path
    last: int = 0
    go: Path = field(init=False)

    def __post_init__(self) -> None:
        self.go = self.plan.with_name("go")

    def start(self, *arguments: object) -> None:
        """Start an install that runs the emitter with these arguments; raises BenchError."""
        command = [sys.executable, "-m", "tools.bench.emitter", *map(str, arguments)]
        steps = [{"name": "write", "run": command, "timeoutSeconds": 300}]
        self.plan.write_text(yaml.safe_dump({"steps": steps}))
        self.request("POST", "install", 202)

    def request(self, method: str, path: str, expected: int, value: object = None) -> None:
        """Send a request of the operator's; raises BenchError where the answer is another than expected."""
        url = f"{self.server.url}/v1/installer/{path}"
        more = {} if value is None else {"json": value}
        with httpx.Client(verify=self.trust, trust_env=False) as client:
            answer = client.request(method, url, headers={"Authorization": self.code}, **more)  # type: ignore[arg-type] # `more` is `json` or nothing
        if answer.status_code != expected:
            raise BenchError(f"{url} answered {answer.status_code}: {answer.text}")

    @contextmanager
    def reading(self, count: int) -> Iterator[list[Reader]]:
        """So many connections."""
        with readers(self.server.program.port, self.trust, count) as opened:
            yield opened


@contextmanager
def serving_all(folder: Path) -> Iterator[list[Machine]]:
    """Run Gatehouse and its peers, which have its code and certificate, each with a history of EVENTS events."""
    folder.mkdir()
    with ExitStack() as stack:
        settings = {"installer": {"commentSeconds": COMMENT_SECONDS}}
        gatehouse = programs.gatehouse(folder / "gatehouse", "installer", tls=True, settings=settings)
        state = StateFolder(gatehouse.folder)
        every = [gatehouse, *(peer(name, folder / name, state) for name in PEERS)]
        trust = ssl.create_default_context(cafile=str(state.authority_certificate))
        code = state.install_code.read_text().strip()
        machines = [
            Machine(stack.enter_context(serving(program)), code, trust, program.folder / state.install_plan.name)
            for program in every
        ]
        machines[0].request("PUT", "config", 200, CONFIG)
        for machine in machines:
            fill(machine)
        yield machines


def peer(name: str, folder: Path, state: StateFolder) -> Program:
    """A peer that has the code and the certificate of a state folder."""
    environment = {
        "BENCH_CODE": str(state.install_code),
        "BENCH_PLAN": str(folder / state.install_plan.name),
        "BENCH_COMMENT_SECONDS": str(COMMENT_SECONDS),
    }
    options = [
        f"--ssl-certfile={state.server_certificate('installer')}",
        f"--ssl-keyfile={state.server_key('installer')}",
        "--http=httptools",
    ]
    return programs.peer(name, "install", folder, environment, options)


def fill(machine: Machine) -> None:
    """Have a first install, whose events all servers have alike but for their times."""
    machine.start(EVENTS - OTHER_EVENTS)
    with machine.reading(1) as [reader]:
        reader.ask(machine.code, machine.last)
        take_until(lambda each: each.ended, [reader])
        _go_on(machine, len(understood([reader], machine.last)[0]), EVENTS)


def _go_on(machine: Machine, events: int, expected: int) -> None:
    if events != expected:
        raise BenchError(f"{machine.server.program.name} sent {events} events of {expected}")
    machine.last += events


@dataclass(frozen=True, slots=True)
class Replay:
    """Many readers take the last events of a history, of which there are EVENTS from the beginning."""

    count: int = READERS
    events: int = EVENTS
    name: ClassVar[str] = "install-replay"
    note: ClassVar[str] = f"p50 and p99 are when readers came to the end. {NOTE}"
    budgets: ClassVar[Sequence[Budget]] = (Budget("gatehouse", "fastapi", 3, 5), Budget("gatehouse", "limit", 0.5, 0.8))

    @property
    def work(self) -> str:
        """How many readers of how much."""
        return f"streamInstallEvents, {self.count} readers of {self.events:,} events that are history, TLS"

    def play(self, machine: Machine) -> Round:
        """One round; the connections are there before it begins."""
        after = machine.last - self.events
        with machine.reading(self.count) as all_readers:
            spent = Spent.so_far(machine.server)
            began = time.time_ns()
            for reader in all_readers:
                reader.ask(machine.code, after)
            looking = take_until(lambda each: each.ended, all_readers)
            cpu, load_cpu = spent.since(looking)
            frames, _ = understood(all_readers, after)
        if len(frames) != self.events:
            raise BenchError(f"{machine.server.program.name} sent {len(frames)} events of {self.events}")
        ends = sorted((reader.times[-1] - began) / 1e6 for reader in all_readers)
        return Round(
            requests=self.events * self.count,
            seconds=ends[-1] / 1e3,
            p50=percentile(ends, 50),
            p99=percentile(ends, 99),
            longest=ends[-1],
            cpu=cpu,
            load_cpu=load_cpu,
        )


@dataclass(frozen=True, slots=True)
class Live:
    """Many readers follow an install that writes so many lines a second, evenly, for so many seconds."""

    seconds: int
    count: int = READERS
    lines_a_second: int = LINES_A_SECOND
    name: ClassVar[str] = "install-live"
    note: ClassVar[str] = f"p50 and p99 are from an event's `at`, with which its commit begins, to a reader. {NOTE}"
    budgets: ClassVar[Sequence[Budget]] = (
        Budget("gatehouse", "fastapi", 1, 1, figure="p50"),
        Budget("gatehouse", "fastapi", 1, 1, figure="p99"),
    )

    @property
    def work(self) -> str:
        """How many readers of how much."""
        lines = f"{self.lines_a_second:,} lines a second"
        return f"streamInstallEvents, {self.count} readers of an install that writes {lines}, TLS"

    def play(self, machine: Machine) -> Round:
        """One round; the install writes its first line once every reader has the beginning of its stream."""
        machine.go.unlink(missing_ok=True)
        lines, after = self.lines_a_second * self.seconds, machine.last
        machine.start(lines, self.lines_a_second, machine.go)
        with machine.reading(self.count) as all_readers:
            for reader in all_readers:
                reader.ask(machine.code, after)
            take_until(lambda each: each.opened, all_readers)
            spent = Spent.so_far(machine.server)
            began = time.time_ns()
            machine.go.touch()
            looking = take_until(lambda each: each.ended, all_readers)
            cpu, load_cpu = spent.since(looking)
            frames, chunks = understood(all_readers, after)
        _go_on(machine, len(frames), lines + OTHER_EVENTS)
        logs = [frame for frame in frames if frame.type == "log"]
        arrivals = [list(reader.arrivals(own, logs)) for reader, own in zip(all_readers, chunks, strict=True)]
        from_commit = _delays([frame.committed for frame in logs], arrivals)
        from_write = _delays([frame.written for frame in logs], arrivals)
        return Round(
            requests=len(frames) * self.count,
            seconds=(max(reader.times[-1] for reader in all_readers) - began) / 1e9,
            p50=percentile(from_commit, 50),
            p99=percentile(from_commit, 99),
            longest=from_commit[-1],
            cpu=cpu,
            load_cpu=load_cpu,
            since_written=(percentile(from_write, 50), percentile(from_write, 99)),
        )


def _delays(begins: Sequence[float], arrivals: Sequence[Sequence[float]]) -> list[float]:
    """How long each event took to each reader, in order of length."""
    return sorted(chain.from_iterable(map(float.__sub__, each, begins) for each in arrivals))


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The least value that so many of a hundred do not pass."""
    return ordered[-(-len(ordered) * percent // 100) - 1]


@dataclass(frozen=True, slots=True)
class Spent:
    """The processor time of a server and of this process, at a moment."""

    server: Server
    cpu: float | None
    load_cpu: float

    @classmethod
    def so_far(cls, server: Server) -> "Spent":
        """That of this moment."""
        return cls(server, cpu_seconds(server.pid), time.process_time())

    def since(self, looking: float) -> tuple[float | None, float]:
        """What was spent from then on: by the server, None where it is not known, and by the load.

        `looking` is what this process has spent on something else than the load.
        """
        ended = cpu_seconds(self.server.pid)
        cpu = None if self.cpu is None or ended is None else ended - self.cpu
        return cpu, time.process_time() - self.load_cpu - looking


def play_rounds(
    job: Replay | Live, machines: Sequence[Machine], *, rounds: int, say: Callable[[str], None]
) -> dict[str, list[Round]]:
    """Play A B C A B C, so that a drifting machine hurts all alike."""
    played: dict[str, list[Round]] = {machine.server.program.name: [] for machine in machines}
    for number in range(1, rounds + 1):
        for machine in machines:
            name = machine.server.program.name
            outcome = job.play(machine)
            played[name].append(outcome)
            say(f"{job.name}, round {number}: {name} {outcome.rate:,.0f} events/s, p99 {outcome.p99:,.1f} ms")
    return played
