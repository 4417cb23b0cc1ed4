"""The job of the control listener while runs are carried out beside it: what execution costs admission."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from handlers.gateway.times import now_milliseconds
from tools.bench import programs
from tools.bench.admission import Admission
from tools.bench.budgets import Budget
from tools.bench.deliveries import BODY_BYTES, DATASCHEMA, SOURCE, TYPE
from tools.bench.load import CONNECTIONS, Carried, Round, counts, play
from tools.bench.servers import BenchError, Program, Server, child, free_port, peak_memory, serving

ON: Final = "with runs"
OFF: Final = "without"
WARM_UP_SECONDS: Final = 1
WARM_UP_RATE: Final = 6_000.0
# So long runs are carried out after a round, while nothing else is asked of the server.
AFTER_SECONDS: Final = 3.0
FIRST_RUN_SECONDS: Final = 60.0

CONNECTION: Final = "receiver"
WORKFLOW: Final[Mapping[str, Any]] = {
    "id": "case-follow-up",
    "version": "bench",
    "deadlineSeconds": 86_400,
    "input": {"type": "object", "required": ["caseId"], "properties": {"caseId": {"type": "string"}}},
    "triggers": {
        "case-created": {
            "source": SOURCE,
            "type": TYPE,
            "dataschema": DATASCHEMA,
            "input": {"caseId": "event.data.caseId", "priority": "event.data.priority"},
        }
    },
    "start": "pause",
    "steps": {
        "pause": {
            "type": "wait-until",
            "until": "timestamp(run.admittedAt) + duration('500ms')",
            "next": "which",
        },
        "which": {
            "type": "choose",
            "cases": [{"when": "input.priority > 5.0", "next": "passed-over"}],
            "else": "tell",
        },
        "tell": {
            "type": "call",
            "connection": CONNECTION,
            "method": "POST",
            "path": "/told",
            "body": {"caseId": "input.caseId"},
            "next": "told",
        },
        "told": {"type": "finish", "outcome": "told", "output": {"received": "steps.tell.body.received"}},
        "passed-over": {"type": "finish", "outcome": "passed-over", "output": {}},
    },
    "outcomes": {"told": {"type": "object"}, "passed-over": {"type": "object"}},
}


class Execution(Admission):
    """The deliveries of Admission; of what they leave, the rows that no executor takes or adds."""

    name: ClassVar[str] = "execution"
    work: ClassVar[str] = f"admitEvent while runs are carried out, {BODY_BYTES:,} bytes, {CONNECTIONS} connections"
    note: ClassVar[str] = (
        "One server on one state folder, started anew for each round. Each run waits half a second, chooses, calls a"
        " receiver on this machine and ends; more are due at all times than can be carried out."
    )
    budgets: ClassVar[Sequence[Budget]] = (Budget(ON, OFF, 0.8, 1),)

    def counts(self) -> Mapping[str, str]:
        """Each table in which an admission leaves a row for good."""
        return {table: f"SELECT count(*) FROM {table}" for table in ("admissions", "runs")}  # noqa: S608 - both are here


@contextmanager
def prepared(folder: Path) -> Iterator[list[Program]]:
    """Make a state folder whose workflow calls a receiver that runs, and give its server with execution and without."""
    folder.mkdir()
    with serving(receiver(folder)) as told:
        connection = {"baseUrl": told.url, "methods": ["POST"], "paths": ["/told"], "recovery": "same-command"}
        program = programs.gatehouse(
            folder / "gatehouse", "control", settings={"connections": {CONNECTION: connection}}, workflow=WORKFLOW
        )
        yield [_switched(program, OFF, "false"), _switched(program, ON, "true")]


def receiver(folder: Path) -> Program:
    """What the runs call; it has no database."""
    port = free_port()
    return Program(
        name="receiver",
        command=[sys.executable, "-m", "tools.bench.receiver", str(port)],
        environment={},
        port=port,
        folder=folder,
        database=folder / "none",
    )


def _switched(program: Program, name: str, enabled: str) -> Program:
    environment = {**program.environment, "GATEHOUSE_EXECUTION_ENABLED": enabled}
    return replace(program, name=name, environment=environment)


def play_rounds(job: Execution, *, rounds: int, seconds: int, say: Callable[[str], None]) -> dict[str, list[Round]]:
    """Play off, on, off, on, so that a drifting machine hurts both alike; the one that is off carries nothing out."""
    with prepared(job.scratch / "execution") as switched:
        played: dict[str, list[Round]] = {program.name: [] for program in switched}
        for number in range(1, rounds + 1):
            for program in switched:
                with serving(program) as server:
                    outcome = _play(job, server, seconds)
                played[program.name].append(outcome)
                say(f"{job.name}, round {number}: {program.name} {outcome.rate:,.0f} requests/s{_told(outcome)}")
    return played


def _told(outcome: Round) -> str:
    carried = outcome.carried
    return f", {carried.during:,.0f} runs/s meanwhile, {carried.after:,.0f} after" if carried else ""


def _play(job: Execution, server: Server, seconds: int) -> Round:
    """One round of a server that was just started, after a warm-up, and with execution once the first run has ended."""
    started = now_milliseconds()
    warm = play(job, server, seconds=WARM_UP_SECONDS, expected_rate=WARM_UP_RATE)
    if server.program.name == OFF:
        return play(job, server, seconds=seconds, expected_rate=warm.rate)
    _wait_for_a_run(server, started)
    outcome = play(job, server, seconds=seconds, expected_rate=warm.rate)
    return replace(outcome, carried=_carried(server, outcome))


def _wait_for_a_run(server: Server, started: int) -> None:
    deadline = time.monotonic() + FIRST_RUN_SECONDS
    while not ended(server, started, now_milliseconds()):
        if time.monotonic() > deadline:
            raise BenchError(f"{server.program.name} carried out no run within {FIRST_RUN_SECONDS:g} s")
        time.sleep(0.05)


def _carried(server: Server, outcome: Round) -> Carried:
    """What was carried out during a round and for AFTER_SECONDS from its end."""
    end = outcome.began_at + round(outcome.seconds * 1000)
    time.sleep(max(0, end / 1000 + AFTER_SECONDS - time.time()))
    executor = child(server.pid, "tools.executor")
    return Carried(
        during=ended(server, outcome.began_at, end) / outcome.seconds,
        after=ended(server, end, end + round(AFTER_SECONDS * 1000)) / AFTER_SECONDS,
        server_peak=peak_memory(server.pid),
        executor_peak=None if executor is None else peak_memory(executor),
    )


def ended(server: Server, since: int, until: int) -> int:
    """How many runs were completed in this time, in epoch milliseconds; the end is not of it."""
    query = f"SELECT count(*) FROM runs WHERE state = 'completed' AND ended_at >= {since} AND ended_at < {until}"  # noqa: S608 - numbers
    return counts(server.program.database, {"runs": query})["runs"]
