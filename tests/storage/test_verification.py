from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from storage.audit import AUDIT, HEADS
from storage.chain import Entry, link
from storage.connections import engine
from storage.database import Storage
from storage.errors import SchemaOutOfDate, Unavailable
from storage.verification import FAULTS_TOLD, Fault, verify
from tests.storage.work import NODE, admit, move, rows, text, write

pytestmark = pytest.mark.anyio


@pytest.fixture
async def audited(storage: Storage) -> Storage:
    """A storage with ten audit rows."""
    for _ in range(9):
        await admit(storage)
    return storage


def faults(url: str, audit_file: Path) -> list[tuple[int, str]]:
    return [(fault.seq, fault.what) for fault in verify(url, node=NODE, audit_file=audit_file).faults]


def change(url: str, *statements: sa.Update | sa.Delete) -> None:
    """Do what no code of ours does."""
    writing = engine(url, "write")
    with writing.begin() as connection:
        for statement in statements:
            connection.execute(statement)
    writing.dispose()


def change_line(audit_file: Path, seq: int, old: bytes, new: bytes) -> None:
    lines = text(audit_file).splitlines(keepends=True)
    assert old in lines[seq - 1]
    lines[seq - 1] = lines[seq - 1].replace(old, new)
    write(audit_file, b"".join(lines))


@pytest.mark.usefixtures("audited")
class TestVerify:
    """Each test breaks one thing in a chain of ten."""

    async def test_an_untouched_audit_has_no_fault(self, url: str, audit_file: Path) -> None:
        found = verify(url, node=NODE, audit_file=audit_file)
        assert (found.rows, found.lines, found.faults) == (10, 10, ())

    @pytest.mark.parametrize(
        "values",
        [
            {"body": "{}"},
            {"action": "run.cancelled"},
            {"subject": "someone"},
            {"at": 1},
            {"prev_hash": "0" * 64},
            {"hash": "0" * 64},
        ],
        ids=lambda values: next(iter(values)),
    )
    async def test_a_changed_row_is_found(self, url: str, audit_file: Path, values: dict[str, Any]) -> None:
        change(url, AUDIT.update().where(AUDIT.c.seq == 5).values(values))
        found = faults(url, audit_file)
        assert found[0] == (5, "row changed")
        # Who changes a hash breaks the link of the row after it too.
        assert found[1:] == ([(6, "row changed")] if "hash" in values else [])

    async def test_a_changed_row_with_a_right_hash_is_found(self, url: str, audit_file: Path) -> None:
        row = rows(url, AUDIT)[4]
        forged = link(NODE, 5, row.prev_hash, Entry(row.at, row.action, "someone", row.body)).hash
        change(url, AUDIT.update().where(AUDIT.c.seq == 5).values(subject="someone", hash=forged))
        assert faults(url, audit_file) == [(5, "line changed"), (6, "row changed")]

    async def test_a_chain_forged_to_its_end_is_found_by_the_file(self, url: str, audit_file: Path) -> None:
        previous, statements = rows(url, AUDIT)[8].hash, []
        row = rows(url, AUDIT)[9]
        forged = link(NODE, 10, previous, Entry(row.at, row.action, "someone", row.body)).hash
        statements = [
            AUDIT.update().where(AUDIT.c.seq == 10).values(subject="someone", hash=forged),
            HEADS.update().values(hash=forged),
        ]
        change(url, *statements)
        assert faults(url, audit_file) == [(10, "line changed")]

    @pytest.mark.parametrize("seq", [1, 5, 9])
    async def test_a_removed_row_is_found(self, url: str, audit_file: Path, seq: int) -> None:
        change(url, AUDIT.delete().where(AUDIT.c.seq == seq))
        assert faults(url, audit_file) == [(seq, "row missing")]

    async def test_removed_last_rows_are_found(self, url: str, audit_file: Path) -> None:
        change(url, AUDIT.delete().where(AUDIT.c.seq >= 9))
        assert faults(url, audit_file) == [(9, "head differs")]

    async def test_removed_last_rows_under_a_forged_head_are_found_by_the_file(
        self, url: str, audit_file: Path
    ) -> None:
        eighth = rows(url, AUDIT)[7]
        change(url, AUDIT.delete().where(AUDIT.c.seq > 8), HEADS.update().values(seq=8, hash=eighth.hash))
        assert faults(url, audit_file) == [(9, "line without row"), (10, "line without row")]

    async def test_a_chain_that_is_gone_is_found_by_the_file(self, url: str, audit_file: Path) -> None:
        change(url, AUDIT.delete(), HEADS.delete())
        assert faults(url, audit_file) == [(seq, "line without row") for seq in range(1, 11)]

    async def test_a_changed_line_is_found(self, url: str, audit_file: Path) -> None:
        change_line(audit_file, 5, b'"run.admitted"', b'"run.admitteD"')
        assert faults(url, audit_file) == [(5, "line changed")]

    async def test_a_line_that_is_no_json_is_found(self, url: str, audit_file: Path) -> None:
        change_line(audit_file, 5, b'{"action"', b'["action"')
        assert faults(url, audit_file) == [(5, "line changed")]

    @pytest.mark.parametrize("seq", [1, 5])
    async def test_a_missing_line_is_found(self, url: str, audit_file: Path, seq: int) -> None:
        lines = text(audit_file).splitlines(keepends=True)
        write(audit_file, b"".join(lines[: seq - 1] + lines[seq:] + [lines[-1]]))
        assert faults(url, audit_file) == [(seq, "line missing"), (10, "line without row")]

    async def test_missing_last_lines_are_found(self, url: str, audit_file: Path) -> None:
        lines = text(audit_file).splitlines(keepends=True)
        write(audit_file, b"".join(lines[:8]))
        found = verify(url, node=NODE, audit_file=audit_file, busy_milliseconds=50)
        assert [(fault.seq, fault.what) for fault in found.faults] == [(9, "line missing"), (10, "line missing")]

    async def test_a_repeated_line_is_found(self, url: str, audit_file: Path) -> None:
        lines = text(audit_file).splitlines(keepends=True)
        write(audit_file, b"".join([*lines[:5], lines[2], *lines[5:]]))
        assert faults(url, audit_file) == [(3, "line without row")]

    async def test_a_line_of_a_row_that_never_was_is_found(self, url: str, audit_file: Path) -> None:
        last = json.loads(text(audit_file).splitlines()[-1])
        write(audit_file, text(audit_file) + json.dumps(last | {"seq": 11}).encode() + b"\n")
        assert faults(url, audit_file) == [(11, "line without row")]

    async def test_a_file_that_cannot_be_read_is_told(self, url: str, audit_file: Path) -> None:
        move(audit_file, ".away")
        assert faults(url, audit_file) == [(0, "file unreadable")]


@pytest.mark.usefixtures("audited")
async def test_no_more_than_so_many_faults_are_told(url: str, audit_file: Path, storage: Storage) -> None:
    await asyncio.gather(*(admit(storage) for _ in range(FAULTS_TOLD)))
    change(url, AUDIT.update().values(at=1))
    assert len(verify(url, node=NODE, audit_file=audit_file).faults) == FAULTS_TOLD


async def test_the_chain_of_another_node_is_verified_too(storage: Storage, url: str, audit_file: Path) -> None:
    await admit(storage)
    change(url, AUDIT.update().values(node="other"), HEADS.update().values(node="other"))
    write(audit_file, b"")
    assert Fault("other", 1, "row changed") in verify(url, node=NODE, audit_file=audit_file).faults


async def test_verifying_beside_a_busy_server_finds_no_fault(storage: Storage, url: str, audit_file: Path) -> None:
    done = threading.Event()

    def verify_again_and_again() -> list[Fault]:
        found: list[Fault] = []
        while not done.is_set():
            found += verify(url, node=NODE, audit_file=audit_file).faults
        return found

    verifying = asyncio.create_task(asyncio.to_thread(verify_again_and_again))
    for _ in range(60):
        await asyncio.gather(*(admit(storage) for _ in range(5)))
    done.set()
    assert await verifying == []


async def test_verifying_mends_nothing(storage: Storage, url: str, audit_file: Path) -> None:
    await admit(storage)
    torn = text(audit_file)[:-10]
    write(audit_file, torn)
    verify(url, node=NODE, audit_file=audit_file, busy_milliseconds=50)
    assert text(audit_file) == torn


def test_verifying_a_database_that_is_away_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        verify(f"sqlite:///{tmp_path / 'nowhere.db'}", node=NODE, audit_file=tmp_path / "audit.jsonl")


def test_verifying_a_database_without_the_schema_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'empty.db'}"
    empty = engine(url, "create")
    empty.connect().close()
    empty.dispose()
    with pytest.raises(SchemaOutOfDate):
        verify(url, node=NODE, audit_file=tmp_path / "audit.jsonl")
