from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.audit import AUDIT, PAGE, AuditFile
from storage.chain import GENESIS, Entry, Head, link
from storage.connections import engine
from storage.database import Storage
from storage.errors import AuditUnavailable
from storage.events import Admitted
from storage.runs import RUNS
from storage.verification import verify
from tests.storage.work import NODE, PACKAGE, admit, candidate, contents, move, open_storage, rows, text, write

pytestmark = pytest.mark.anyio


def whole_chain(url: str) -> bytes:
    """What the file has to hold, made from the table."""
    return b"".join(
        link(row.node, row.seq, row.prev_hash, Entry(row.at, row.action, row.subject, row.body)).line
        for row in rows(url, AUDIT)
        if row.node == NODE
    )


async def admit_some(storage: Storage, count: int = 5) -> None:
    await asyncio.gather(*(admit(storage) for _ in range(count)))


async def test_an_answer_leaves_after_its_line_is_in_the_file(storage: Storage, url: str, audit_file: Path) -> None:
    outcome = await admit(storage)
    line = json.loads(text(audit_file).splitlines()[-1])
    assert (line["action"], line["subject"], line["node"]) == ("run.admitted", outcome.run_id, NODE)
    assert text(audit_file) == whole_chain(url)


async def test_every_line_bears_the_hash_of_the_line_before(storage: Storage, audit_file: Path) -> None:
    await admit_some(storage)
    lines = [json.loads(line) for line in text(audit_file).splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, 7))
    assert [line["prev"] for line in lines] == ["0" * 64, *(line["hash"] for line in lines[:-1])]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda whole: whole[:-10], id="torn"),
        pytest.param(lambda whole: whole[: whole.rindex(b"\n", 0, -1) + 1], id="last line missing"),
        pytest.param(lambda whole: whole[: whole.index(b"\n") + 5], id="nearly all missing"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda whole: whole[:7], id="one torn line"),
    ],
)
async def test_a_file_that_ends_too_early_is_continued_at_the_next_start(
    url: str, audit_file: Path, damage: Callable[[bytes], bytes]
) -> None:
    async with open_storage(url, audit_file) as storage:
        await storage.workflows.apply(PACKAGE.digest, PACKAGE.snapshot, PACKAGE.definitions)
        await admit_some(storage)
    write(audit_file, damage(text(audit_file)))
    async with open_storage(url, audit_file) as storage:
        assert text(audit_file) == whole_chain(url)
        await admit(storage)
    assert text(audit_file) == whole_chain(url)
    assert [path.name for path in contents(audit_file.parent) if "contradicts" in path.name] == []


def without_second_line(whole: bytes) -> bytes:
    first, _, *rest = whole.splitlines(keepends=True)
    return b"".join([first, *rest])


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(without_second_line, id="a line missing in the middle"),
        pytest.param(lambda whole: whole[:-1] * 2 + b"\n", id="no line at the end"),
        pytest.param(lambda whole: whole + whole.splitlines(keepends=True)[-1], id="a line twice"),
        pytest.param(lambda whole: whole + b"{}\n", id="a line of something else"),
        pytest.param(lambda whole: whole.replace(b'"hash":"', b'"hash":"0', 1), id="longer"),
        pytest.param(lambda whole: whole.replace(b'"node":"local"', b'"node":"other"'), id="another node's"),
        pytest.param(lambda whole: whole[:-1].rpartition(b"\n")[2] + b"\n", id="the last line alone"),
        pytest.param(lambda whole: whole + b"x" * 300_000, id="a very long line without end"),
    ],
)
async def test_a_file_that_contradicts_the_table_is_kept_aside_and_written_anew(
    url: str, audit_file: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_storage(url, audit_file) as storage:
        await storage.workflows.apply(PACKAGE.digest, PACKAGE.snapshot, PACKAGE.definitions)
        await admit_some(storage)
    damaged = damage(text(audit_file))
    write(audit_file, damaged)
    async with open_storage(url, audit_file) as storage:
        assert text(audit_file) == whole_chain(url)
        await admit(storage)
    [kept] = [path for path in contents(audit_file.parent) if "contradicts" in path.name]
    assert text(kept) == damaged
    assert kept.name in caplog.text
    assert text(audit_file) == whole_chain(url)


async def test_a_file_of_more_rows_than_one_page_is_written_whole(storage: Storage, url: str, audit_file: Path) -> None:
    await admit_some(storage, PAGE + 100)
    write(audit_file, b"")
    async with open_storage(url, audit_file):
        pass
    assert text(audit_file) == whole_chain(url)


def replace_by_directory(audit_file: Path) -> None:
    audit_file.rename(audit_file.with_suffix(".moved"))
    audit_file.mkdir()


def replace_by_full_device(audit_file: Path) -> None:
    audit_file.rename(audit_file.with_suffix(".moved"))
    audit_file.symlink_to("/dev/full")


def put_back(audit_file: Path) -> None:
    if audit_file.is_dir():
        audit_file.rmdir()
    else:
        audit_file.unlink()
    audit_file.with_suffix(".moved").rename(audit_file)


@pytest.mark.parametrize("break_it", [replace_by_directory, replace_by_full_device])
async def test_where_the_file_cannot_be_written_work_stands_then_is_refused_until_it_can(
    storage: Storage, url: str, audit_file: Path, break_it: Callable[[Path], None]
) -> None:
    first, second = candidate(), candidate()
    break_it(audit_file)
    with pytest.raises(AuditUnavailable):
        await storage.admissions.admit(first)
    assert len(rows(url, RUNS)) == 1
    for _ in range(2):
        with pytest.raises(AuditUnavailable):
            await storage.admissions.admit(second)
        assert len(rows(url, RUNS)) == 1
    put_back(audit_file)
    stood, new = await asyncio.gather(storage.admissions.admit(first), storage.admissions.admit(second))
    assert isinstance(stood, Admitted)
    assert isinstance(new, Admitted)
    assert (stood.new, new.new) == (False, True)
    assert text(audit_file) == whole_chain(url)


async def test_a_file_that_was_replaced_is_noticed_and_the_new_one_is_filled(
    storage: Storage, url: str, audit_file: Path
) -> None:
    await admit_some(storage)
    move(audit_file, ".rotated")
    write(audit_file, b"")
    with pytest.raises(AuditUnavailable):
        await storage.admissions.admit(candidate())
    await admit(storage)
    assert text(audit_file) == whole_chain(url)


async def test_a_file_that_was_removed_is_made_again(storage: Storage, url: str, audit_file: Path) -> None:
    await admit_some(storage)
    move(audit_file, ".away")
    with pytest.raises(AuditUnavailable):
        await storage.admissions.admit(candidate())
    await admit(storage)
    assert text(audit_file) == whole_chain(url)


async def test_lines_that_someone_took_from_a_running_server_s_file_are_written_again(
    storage: Storage, url: str, audit_file: Path
) -> None:
    await admit_some(storage)
    whole = text(audit_file)
    write(audit_file, whole[: whole.index(b"\n") + 1])
    await admit(storage)
    assert text(audit_file) == whole_chain(url)


async def test_two_processes_that_write_one_file_keep_it_in_the_order_of_the_chain(
    storage: Storage, url: str, audit_file: Path
) -> None:
    async def admit_in_turns(one: Storage) -> None:
        for _ in range(30):
            await admit_some(one, 3)

    async with open_storage(url, audit_file) as other:
        await asyncio.gather(admit_in_turns(storage), admit_in_turns(other))
    assert text(audit_file) == whole_chain(url)
    found = verify(url, node=NODE, audit_file=audit_file)
    assert (found.rows, found.lines, found.faults) == (181, 181, ())


async def test_lines_that_a_process_committed_and_never_wrote_are_written_by_the_next(
    storage: Storage, url: str, audit_file: Path
) -> None:
    async with open_storage(url, audit_file) as dying:
        whole = text(audit_file)
        await admit_some(dying)
    write(audit_file, whole)
    await admit(storage)
    assert text(audit_file) == whole_chain(url)


@pytest.mark.parametrize("reason", ["\x00", "a\x00b\x1f\x7f\x80", "\u2028 \U0001f600 ﬃ", '"\\\n\t'])
async def test_any_text_of_a_reason_is_audited_and_verifies(
    storage: Storage, url: str, audit_file: Path, reason: str
) -> None:
    await storage.holds.restore(reason)
    run = await admit_after_release(storage)
    await storage.runs.cancel(run, reason)
    lines = [json.loads(line) for line in text(audit_file).splitlines()]
    assert [line["body"]["reason"] for line in lines if "reason" in line["body"]] == [reason, "done", reason]
    assert verify(url, node=NODE, audit_file=audit_file).faults == ()


async def admit_after_release(storage: Storage) -> str:
    await storage.holds.release_restore("done")
    await storage.holds.release_admission(
        recovery_reference="r", admission_history_complete=True, prior_deployment_fenced=True
    )
    return (await admit(storage)).run_id


async def test_the_file_and_its_lock_are_for_their_owner_alone(storage: Storage, audit_file: Path) -> None:
    await admit(storage)
    modes = {path.name: path.stat().st_mode & 0o777 for path in contents(audit_file.parent) if "audit" in path.name}
    assert modes == {"audit.jsonl": 0o600, "audit.jsonl.lock": 0o600}


def test_a_disk_that_takes_only_a_part_of_the_lines_is_left_with_none_of_them(url: str, audit_file: Path) -> None:
    reading = engine(url, "read")
    file = AuditFile(audit_file, NODE, reading, busy_milliseconds=200)
    file.catch_up()
    first = link(NODE, 1, GENESIS, Entry(0, "told", "someone", "{}"))
    head = Head(1, first.hash, len(first.line))
    file.append([first.line], Head(), head)
    second = link(NODE, 2, first.hash, Entry(0, "told", "someone", "{}"))
    after = Head(2, second.hash, head.length + len(second.line))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (head.length + 10, hard))
    try:
        with pytest.raises(AuditUnavailable):
            file.append([second.line], head, after)
        assert text(audit_file) == first.line
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.append([second.line], head, after)
    assert text(audit_file) == first.line + second.line
    file.close()
    reading.dispose()


def test_a_lock_that_is_never_let_go_is_not_waited_for_for_ever(url: str, audit_file: Path) -> None:
    reading = engine(url, "read")
    holding, waiting = (AuditFile(audit_file, NODE, reading, busy_milliseconds=50) for _ in range(2))
    with holding.locked(), pytest.raises(AuditUnavailable), waiting.locked():
        pass
    with waiting.locked():
        pass
    holding.close()
    waiting.close()
    reading.dispose()
