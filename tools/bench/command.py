"""The bench from beginning to end: start the servers, play interleaved rounds, measure start and memory, report."""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console

from tools.bench import load
from tools.bench.load import Round, play
from tools.bench.report import Memory, Result, document, failures, show
from tools.bench.servers import HOST, BenchError, Program, Server, free_port, peak_memory, serving

RESULTS: Final = Path("bench-results")
WARM_UP_SECONDS: Final = 2
WARM_UP_RATE: Final = 6_000.0
WAVE_SECONDS: Final = 5
MEMORY_EVENTS: Final = 100_000
PEERS: Final = ("fastapi", "limit")

Say = Callable[[str], None]


def run(*, rounds: int = 5, seconds: int = 5, as_json: bool = False) -> int:
    """Measure, print tables (or the JSON document) and keep the document in bench-results/.

    Returns the exit code: 0 where every budget is held, 1 where one is not or the bench cannot measure.
    """
    progress = Console(stderr=True)
    try:
        result = measure(rounds=rounds, seconds=seconds, say=progress.print)
    except BenchError as error:
        progress.print(f"[red]{error}[/red]")
        return 1
    text = json.dumps(document(result), indent=2)
    kept = RESULTS / f"{result.date.replace(':', '')}.json"
    kept.write_text(text + "\n")
    output = Console()
    if as_json:
        output.print_json(text)
    else:
        show(result, output)
        output.print(f"kept in {kept}")
    return 1 if failures(result) else 0


def measure(*, rounds: int, seconds: int, say: Say) -> Result:
    """All measurements of one run; raises BenchError where one cannot be trusted."""
    if seconds > load.LONGEST_ROUND:
        raise BenchError(f"a round lasts at most {load.LONGEST_ROUND:g} s: deliveries are good for thirty")
    load.wrk()
    RESULTS.mkdir(exist_ok=True)
    load_average = os.getloadavg()[0]
    # Not in /tmp, which may be memory: what is measured is durable.
    with TemporaryDirectory(prefix="work-", dir=RESULTS.resolve()) as name:
        folder = Path(name)
        played = play_rounds(programs(folder), rounds=rounds, seconds=seconds, scratch=folder, say=say)
        first_answer, memory = measure_gatehouse(folder, say)
    return Result(
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        rounds=played,
        first_answer=first_answer,
        memory=memory,
        load_average=load_average,
    )


def programs(folder: Path) -> list[Program]:
    """Gatehouse and its peers, each with a folder of its own."""
    return [gatehouse(folder / "gatehouse"), *(peer(name, folder / name) for name in PEERS)]


def gatehouse(folder: Path) -> Program:
    """Gatehouse's control listener on a state folder, as `gatehouse init` makes it."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("gatehouse"))]
    _run([*command, "init", "--state", str(folder)])
    return Program(
        name="gatehouse",
        command=[*command, "serve", "--state", str(folder), "--listener", "control"],
        environment={"GATEHOUSE_CONTROL_BIND": f"{HOST}:{port}"},
        port=port,
        folder=folder,
        database=folder / "gatehouse.db",
        key_file=folder / "sources" / "demo.key",
    )


def peer(name: str, folder: Path) -> Program:
    """A peer on uvicorn with uvloop and httptools, an empty database and a key of its own."""
    folder.mkdir()
    port = free_port()
    key_file = folder / "demo.key"
    key_file.write_bytes(secrets.token_bytes(32))
    database = folder / "peer.db"
    application = f"tools.bench.peers.{name}_app:app"
    options = [
        "--http=httptools",
        "--loop=uvloop",
        "--no-access-log",
        "--no-proxy-headers",
        "--log-level=warning",
        "--lifespan=on",
    ]
    return Program(
        name=name,
        command=[sys.executable, "-m", "uvicorn", application, f"--host={HOST}", f"--port={port}", *options],
        environment={"BENCH_DATABASE": str(database), "BENCH_KEY": str(key_file)},
        port=port,
        folder=folder,
        database=database,
        key_file=key_file,
    )


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own commands
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")


def play_rounds(
    programs: Sequence[Program], *, rounds: int, seconds: int, scratch: Path, say: Say
) -> dict[str, list[Round]]:
    """Warm up every server, then play A B C A B C, so that a drifting machine hurts all alike."""
    played: dict[str, list[Round]] = {program.name: [] for program in programs}
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(program)) for program in programs]
        expected = {}
        for server in servers:
            outcome = play(server, seconds=WARM_UP_SECONDS, expected_rate=WARM_UP_RATE, scratch=scratch)
            expected[server.program.name] = outcome.rate
        for number in range(1, rounds + 1):
            for server in servers:
                name = server.program.name
                outcome = play(server, seconds=seconds, expected_rate=expected[name], scratch=scratch)
                expected[name] = max(expected[name], outcome.rate)
                played[name].append(outcome)
                say(f"round {number}: {name} {outcome.rate:,.0f} requests/s")
    return played


def measure_gatehouse(folder: Path, say: Say) -> tuple[dict[str, float], Memory]:
    """Seconds to the first answer, in a state folder just made and again later; peak memory of the first of the two."""
    program = gatehouse(folder / "memory")
    with serving(program) as server:
        first = server.first_answer
        events = admit_events(server, MEMORY_EVENTS, folder)
        memory = Memory(events=events, peak_bytes=peak_memory(server.pid))
    say(f"memory: {events:,} events admitted")
    with serving(program) as server:
        again = server.first_answer
    return {"start in a new folder": first, f"start with {events:,} runs": again}, memory


def admit_events(server: Server, wanted: int, scratch: Path) -> int:
    """Send waves of events until `wanted` are admitted; returns how many were."""
    admitted, expected = 0, WARM_UP_RATE
    while admitted < wanted:
        outcome = play(server, seconds=WAVE_SECONDS, expected_rate=expected, scratch=scratch)
        admitted, expected = admitted + outcome.requests, outcome.rate
    return admitted
