from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from storage.connections import engine
from storage.database import Storage
from storage.errors import AuditUnavailable, SchemaOutOfDate, Unavailable
from storage.events import Admitted
from storage.execution.rows import OUTBOX
from storage.runs import RUNS
from storage.verification import verify
from tests.storage.work import NODE, admit, candidate, contents, open_storage, rows
from tests.support.effort import tries

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def child(what: str, url: str, audit_file: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.storage.child", what, url, str(audit_file)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def told(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found


def acknowledged_before_kill(url: str, audit_file: Path, count: int) -> dict[str, str]:
    """Let a child admit until it has acknowledged `count` events, kill it, return the run of each it acknowledged."""
    with child("admit", url, audit_file) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(count)]
        process.kill()
        lines += [line for line in process.stdout if line.endswith("\n")]
    return {line["event"]: line["run"] for line in map(told, lines)}


async def test_a_process_that_is_killed_again_and_again_loses_nothing_that_it_acknowledged(
    url: str, audit_file: Path
) -> None:
    acknowledged: dict[str, str] = {}
    for count in (1, 40, 150, 300)[: tries(4, elsewhere=3)]:
        acknowledged |= acknowledged_before_kill(url, audit_file, count)
        async with open_storage(url, audit_file) as storage:
            for event, run in acknowledged.items():
                found = await storage.runs.get(run)
                assert found is not None, event
    identities = rows(url, sa.Table("admissions", sa.MetaData(), sa.Column("event_id"), sa.Column("run_id")))
    assert len(identities) == len(rows(url, RUNS)) == len(rows(url, OUTBOX)) >= len(acknowledged)
    assert verify(url, node=NODE, audit_file=audit_file).faults == ()


def test_a_process_whose_disk_is_full_serves_again_once_it_is_not(sqlite_url: str, audit_file: Path) -> None:
    with child("full", sqlite_url, audit_file) as process:
        output, _ = process.communicate(timeout=60)
    assert [line.get("new") for line in map(told, output.splitlines())] == [True, True, True]
    assert process.returncode == 0
    assert len(rows(sqlite_url, RUNS)) == 3
    assert verify(sqlite_url, node=NODE, audit_file=audit_file).faults == ()


async def test_closing_twice_is_closing_once(url: str, audit_file: Path) -> None:
    storage = await Storage.open(url, node=NODE, audit_file=audit_file)
    await storage.close()
    await storage.close()


async def test_what_was_stored_is_there_after_opening_again(url: str, audit_file: Path, storage: Storage) -> None:
    event = candidate()
    first = await storage.admissions.admit(event)
    assert isinstance(first, Admitted)
    async with open_storage(url, audit_file) as again:
        assert await again.admissions.admit(event) == Admitted(first.run_id, new=False)


async def test_opening_a_database_without_the_schema_names_the_command_that_mends_it(
    tmp_path: Path, audit_file: Path
) -> None:
    empty = engine(f"sqlite:///{tmp_path / 'empty.db'}", "create")
    empty.connect().close()
    empty.dispose()
    with pytest.raises(SchemaOutOfDate, match="gatehouse init --migrate"):
        await Storage.open(f"sqlite:///{tmp_path / 'empty.db'}", node=NODE, audit_file=audit_file)


@pytest.mark.parametrize(
    "away", ["sqlite:///{folder}/nowhere/gatehouse.db", "postgresql://gatehouse@127.0.0.1:1/gatehouse"]
)
async def test_opening_a_database_that_is_away_is_unavailable(away: str, tmp_path: Path, audit_file: Path) -> None:
    with pytest.raises(Unavailable):
        await Storage.open(away.format(folder=tmp_path), node=NODE, audit_file=audit_file)
    assert [path.name for path in contents(tmp_path)] == []


async def test_opening_where_the_audit_file_cannot_be_written_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(AuditUnavailable):
        await Storage.open(url, node=NODE, audit_file=tmp_path / "nowhere" / "audit.jsonl")


async def test_storage_is_ready_while_its_database_answers(storage: Storage) -> None:
    await storage.ready()


async def test_two_nodes_of_one_database_have_chains_and_files_of_their_own(
    storage: Storage, url: str, audit_file: Path, tmp_path: Path
) -> None:
    other_file = tmp_path / "other.jsonl"
    async with open_storage(url, other_file, node="other") as other:
        await admit(other)
        await admit(storage)
    for node, file in ((NODE, audit_file), ("other", other_file)):
        found = verify(url, node=node, audit_file=file)
        assert (found.rows, found.faults) == (3, ())
    assert verify(url, node="other", audit_file=other_file).lines == 1
