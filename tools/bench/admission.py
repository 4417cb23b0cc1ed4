"""The job of the control listener: admit signed events, no two alike, and keep each of them for good."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from tools.bench import programs
from tools.bench.budgets import Budget
from tools.bench.deliveries import BODY_BYTES, prepare
from tools.bench.load import CONNECTIONS
from tools.bench.programs import PEERS
from tools.bench.servers import Program, Server

TABLES: Final = ("admissions", "runs", "outbox", "audit")
# A round may turn out faster than the last; deliveries that run out spoil it, those left over cost nothing.
SPARE: Final = 4
LEAST_RATE: Final = 1_000.0
SCRIPT: Final = Path(__file__).with_name("deliver.lua")


@dataclass(frozen=True, slots=True)
class Admission:
    """Every delivery is prepared before the round; `scratch` is the folder for that."""

    scratch: Path
    name: ClassVar[str] = "admit"
    work: ClassVar[str] = f"admitEvent, {BODY_BYTES:,} bytes, unique events, durable, {CONNECTIONS} connections"
    note: ClassVar[str] = "No runs are carried out. The peers write the rows of the audit, but no audit file."
    budgets: ClassVar[Sequence[Budget]] = (
        Budget("gatehouse", "fastapi", 7, 20),
        Budget("gatehouse", "limit", 0.5, 1.5),
    )
    counted: ClassVar[int] = 1

    def arguments(self, server: Server, seconds: int, expected_rate: float) -> list[str]:
        """Prepare enough deliveries for the time and rate, and tell wrk to send them."""
        count = round(seconds * SPARE * max(expected_rate, LEAST_RATE))
        prepared = prepare(self.scratch / "deliveries", count, server.program.key_file.read_bytes(), server.address)
        return [f"--script={SCRIPT}", server.url, "--", str(prepared.path), str(prepared.size), str(prepared.count)]

    def counts(self) -> Mapping[str, str]:
        """Each table in which an admission leaves a row."""
        return {table: f"SELECT count(*) FROM {table}" for table in TABLES}  # noqa: S608 - names from TABLES


def all_programs(folder: Path) -> list[Program]:
    """Gatehouse's control listener and its peers, each with a folder of its own."""
    return [gatehouse(folder / "gatehouse"), *(peer(name, folder / name) for name in PEERS)]


def gatehouse(folder: Path) -> Program:
    """Gatehouse's control listener without execution, which its peers do not know of."""
    return programs.gatehouse(folder, "control", settings={"execution": {"enabled": False}})


def peer(name: str, folder: Path) -> Program:
    """A peer with a key of its own."""
    key_file = folder / "sources" / "demo.key"
    program = programs.peer(name, "app", folder, {"BENCH_KEY": str(key_file)})
    key_file.parent.mkdir()
    key_file.write_bytes(secrets.token_bytes(32))
    return program
