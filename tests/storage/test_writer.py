from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from storage import writer
from storage.connections import WRITE_LOCK
from storage.database import Limits, Storage
from storage.errors import Overloaded, Unavailable, Unstorable
from storage.events import Admitted
from storage.refusals import Refused
from storage.runs import RUNS
from storage.statements import CHUNK
from storage.transaction import Transaction
from storage.verification import verify
from tests.storage.postgresql import Server
from tests.storage.work import NODE, PACKAGE, admit, candidate, new_run, open_storage, rows, size

pytestmark = pytest.mark.anyio

# An integer that neither database can store.
UNSTORABLE = new_run(deadline_seconds=2**70)


@pytest.fixture
def patience() -> Limits:
    """Limits under which a test need not wait long for a lock."""
    return Limits(busy_milliseconds=200)


@contextlib.asynccontextmanager
async def serving(url: str, audit_file: Path, limits: Limits) -> AsyncIterator[Storage]:
    async with open_storage(url, audit_file, limits=limits) as storage:
        await storage.workflows.apply(PACKAGE.digest, PACKAGE.snapshot, PACKAGE.definitions)
        yield storage


async def test_what_is_submitted_in_one_turn_of_the_loop_shares_one_commit(url: str, audit_file: Path) -> None:
    batches: list[int] = []
    async with open_storage(url, audit_file, on_commit=batches.append) as storage:
        await asyncio.gather(*(storage.admissions.admit(candidate()) for _ in range(50)))
        await storage.holds.restore("restored")
    assert batches == [50, 1]


async def test_what_waits_while_a_batch_commits_is_the_next_batch(url: str, audit_file: Path) -> None:
    batches: list[int] = []
    async with open_storage(url, audit_file, on_commit=batches.append) as storage:
        with holding(storage) as (reached, go_on):
            first = asyncio.create_task(storage.admissions.admit(candidate()))
            await asyncio.to_thread(reached.wait)
            others = [asyncio.create_task(storage.admissions.admit(candidate())) for _ in range(3)]
            await handed_over()
            more = asyncio.create_task(storage.holds.restore("restored"))
            await handed_over()
            go_on.set()
            await asyncio.gather(first, *others, more)
    assert batches == [1, 4]


async def test_a_writer_that_paces_itself_gathers_what_comes_meanwhile(url: str, audit_file: Path) -> None:
    batches: list[int] = []
    async with open_storage(url, audit_file, on_commit=batches.append, pace_seconds=0.2) as storage:
        await storage.admissions.admit(candidate())
        tasks = [asyncio.create_task(storage.admissions.admit(candidate()))]
        await handed_over()
        tasks += [asyncio.create_task(storage.admissions.admit(candidate())) for _ in range(3)]
        await asyncio.gather(*tasks)
    assert batches == [1, 4]


async def test_a_writer_that_paces_itself_rests_longer_after_it_had_to_wait(
    url: str, audit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Then the least wait, as every batch has it, is a long one.
    monkeypatch.setattr(writer, "REST_FOR_WAIT", 1_000_000_000)
    batches: list[int] = []
    async with open_storage(url, audit_file, on_commit=batches.append, pace_seconds=0.000_001) as storage:
        await storage.admissions.admit(candidate())
        tasks = [asyncio.create_task(storage.admissions.admit(candidate()))]
        await handed_over()
        tasks += [asyncio.create_task(storage.admissions.admit(candidate())) for _ in range(3)]
        await asyncio.gather(*tasks)
    assert batches == [1, 4]


@pytest.mark.parametrize(("pace", "waited", "rest"), [(0.0, 1.0, 0.0), (0.01, 0.0, 0.01), (0.01, 0.005, 0.06)])
def test_a_rest_is_the_pace_and_many_times_the_wait(pace: float, waited: float, rest: float) -> None:
    assert writer.rest_seconds(pace, waited) == pytest.approx(rest)


def test_no_rest_is_so_long_that_a_run_would_stand_still() -> None:
    assert writer.rest_seconds(0.01, 2.0) == writer.LONGEST_REST_SECONDS


async def handed_over() -> None:
    """Let tasks that were just made submit their work in one turn of the loop, and have it handed over in the next."""
    for _ in range(2):
        await asyncio.sleep(0)


@contextlib.contextmanager
def holding(storage: Storage) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Hold the writer before each of its commits until it may go on."""
    reached, go_on = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        reached.set()
        assert go_on.wait(timeout=60)

    storage.writer.failure_points.before_commit = hold
    try:
        yield reached, go_on
    finally:
        go_on.set()
        storage.writer.failure_points.before_commit = None


async def test_an_item_that_cannot_be_stored_fails_alone(storage: Storage, url: str) -> None:
    candidates = [candidate(), candidate(run=UNSTORABLE), candidate()]
    outcomes = await asyncio.gather(*map(storage.admissions.admit, candidates), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Admitted, Unstorable, Admitted]
    assert len(rows(url, RUNS)) == 2
    await admit(storage)


async def test_an_item_of_another_kind_that_raises_fails_alone_and_leaves_nothing(storage: Storage, url: str) -> None:
    def break_down(transaction: Transaction, items: Sequence[str]) -> list[str]:
        transaction.record("broken", items[0], {})
        raise ZeroDivisionError

    outcomes = await asyncio.gather(
        storage.admissions.admit(candidate()),
        storage.writer.submit(break_down, "x"),
        storage.holds.restore("restored"),
        return_exceptions=True,
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["Admitted", "Unstorable", "HoldState"]
    assert isinstance(outcomes[1], Unstorable)
    assert isinstance(outcomes[1].__cause__, ZeroDivisionError)
    assert len(rows(url, RUNS)) == 1


async def test_an_error_tells_neither_sql_nor_values(storage: Storage) -> None:
    with pytest.raises(Unstorable) as caught:
        await storage.admissions.admit(candidate(run=UNSTORABLE))
    assert str(caught.value) == "this item cannot be stored"


async def test_a_fault_before_the_commit_is_unavailable_for_all_and_stores_nothing(storage: Storage, url: str) -> None:
    events = [candidate() for _ in range(5)]

    def fail(transaction: Transaction) -> None:
        raise transaction.connection.dialect.loaded_dbapi.OperationalError("away")

    storage.writer.failure_points.before_commit = fail
    outcomes = await asyncio.gather(*map(storage.admissions.admit, events), return_exceptions=True)
    storage.writer.failure_points.before_commit = None
    assert {type(outcome) for outcome in outcomes} == {Unavailable}
    assert rows(url, RUNS) == []
    for event in events:
        outcome = await storage.admissions.admit(event)
        assert isinstance(outcome, Admitted)
        assert outcome.new


async def test_a_commit_whose_result_is_unknown_is_unavailable_and_a_redelivery_finds_out(
    storage: Storage, url: str, audit_file: Path
) -> None:
    event = candidate()

    def lose_the_answer(_: Transaction) -> None:
        raise ConnectionError

    storage.writer.failure_points.after_commit = lose_the_answer
    with pytest.raises(Unavailable):
        await storage.admissions.admit(event)
    storage.writer.failure_points.after_commit = None
    outcome = await storage.admissions.admit(event)
    assert isinstance(outcome, Admitted)
    assert not outcome.new
    await admit(storage)
    assert verify(url, node=NODE, audit_file=audit_file).faults == ()


async def test_a_server_that_ends_the_session_before_the_commit_is_unavailable_once(
    postgresql_url: str, audit_file: Path, patience: Limits
) -> None:
    def end_session(transaction: Transaction) -> None:
        process = transaction.connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
        with psycopg.connect(postgresql_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (process,))

    async with serving(postgresql_url, audit_file, patience) as storage:
        event = candidate()
        storage.writer.failure_points.before_commit = end_session
        with pytest.raises(Unavailable):
            await storage.admissions.admit(event)
        storage.writer.failure_points.before_commit = None
        outcome = await storage.admissions.admit(event)
        assert isinstance(outcome, Admitted)
        assert outcome.new


async def test_a_client_that_leaves_does_not_withdraw_its_item(storage: Storage) -> None:
    event = candidate()
    with holding(storage) as (reached, go_on):
        leaving = asyncio.create_task(storage.admissions.admit(event))
        await asyncio.to_thread(reached.wait)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        go_on.set()
        outcome = await storage.admissions.admit(event)
    assert isinstance(outcome, Admitted)
    assert not outcome.new


async def test_a_client_that_leaves_before_its_batch_begins_does_not_withdraw_its_item(storage: Storage) -> None:
    event = candidate()
    leaving = asyncio.create_task(storage.admissions.admit(event))
    await asyncio.sleep(0)
    leaving.cancel()
    outcome = await storage.admissions.admit(event)
    assert isinstance(outcome, Admitted)
    assert not outcome.new


async def test_beyond_the_bound_work_is_refused_at_once(url: str, audit_file: Path) -> None:
    async with serving(url, audit_file, Limits(waiting=3)) as storage:
        with holding(storage) as (reached, go_on):
            waiting = [asyncio.create_task(storage.admissions.admit(candidate())) for _ in range(3)]
            await asyncio.to_thread(reached.wait)
            with pytest.raises(Overloaded):
                await storage.admissions.admit(candidate())
            go_on.set()
            assert all(isinstance(outcome, Admitted) for outcome in await asyncio.gather(*waiting))
        await admit(storage)


async def test_after_closing_work_is_refused_and_what_waited_was_done(url: str, audit_file: Path) -> None:
    async with open_storage(url, audit_file) as storage:
        waiting = [asyncio.create_task(storage.holds.restore("restored")) for _ in range(3)]
        await asyncio.sleep(0)
        await storage.close()
        assert all(outcome.admission_held for outcome in await asyncio.gather(*waiting))
        with pytest.raises(Unavailable):
            await storage.holds.restore("again")


LOCK_SQLITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def locked_by_another_process(url: str) -> Iterator[None]:
    if url.startswith("postgresql:"):
        with psycopg.connect(url) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (WRITE_LOCK,))
            yield
        return
    command = [sys.executable, "-c", LOCK_SQLITE, url.removeprefix("sqlite:///")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield
        process.communicate("")


async def test_a_database_that_another_process_has_locked_is_unavailable_and_then_serves_again(
    url: str, audit_file: Path, patience: Limits
) -> None:
    async with serving(url, audit_file, patience) as storage:
        event = candidate()
        with locked_by_another_process(url):
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await storage.admissions.admit(event)
            await storage.ready()
        outcome = await storage.admissions.admit(event)
        assert isinstance(outcome, Admitted)
        assert outcome.new


async def test_a_write_that_another_writer_delays_is_not_lost(url: str, audit_file: Path) -> None:
    """Case 9: a transaction that begins as a write waits its turn instead of failing at its first write."""
    async with serving(url, audit_file, Limits()) as storage, open_storage(url, audit_file) as other:
        with holding(other) as (reached, go_on):
            first = asyncio.create_task(other.admissions.admit(candidate()))
            await asyncio.to_thread(reached.wait)
            waiting = asyncio.gather(*(storage.admissions.admit(candidate()) for _ in range(20)))
            await asyncio.sleep(0)
            go_on.set()
            outcomes = [await first, *await waiting]
    assert all(isinstance(outcome, Admitted) for outcome in outcomes)


async def test_a_full_database_is_unavailable_and_then_serves_again(
    sqlite_url: str, audit_file: Path, patience: Limits
) -> None:
    def fill(transaction: Transaction, items: Sequence[None]) -> Sequence[None]:
        """The limit is the connection's own: it is gone with the connection that met it."""
        (pages,) = transaction.cursor.execute("PRAGMA page_count").fetchone()
        transaction.cursor.execute(f"PRAGMA max_page_count={pages}")
        return items

    async with serving(sqlite_url, audit_file, patience) as storage:
        await storage.writer.submit(fill, None)
        big = candidate(run=new_run(input='"' + "x" * 1_000_000 + '"'))
        small = candidate()
        outcomes = await asyncio.gather(*map(storage.admissions.admit, [small, big]), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Unavailable, Unavailable]
        for event in (small, big):
            outcome = await storage.admissions.admit(event)
            assert isinstance(outcome, Admitted)
            assert outcome.new


async def test_a_server_that_stops_is_unavailable_and_then_serves_again(
    postgresql: Server, postgresql_url: str, audit_file: Path, patience: Limits
) -> None:
    async with serving(postgresql_url, audit_file, patience) as storage:
        event = candidate()
        await asyncio.to_thread(postgresql.stop)
        try:
            for _ in range(2):
                with pytest.raises(Unavailable):
                    await storage.admissions.admit(event)
                with pytest.raises(Unavailable):
                    await storage.ready()
        finally:
            await asyncio.to_thread(postgresql.start)
        assert isinstance(await storage.admissions.admit(event), Admitted)


async def test_a_database_file_that_is_moved_away_is_unavailable_until_it_is_back(
    sqlite_url: str, audit_file: Path, tmp_path: Path, patience: Limits
) -> None:
    there, away = tmp_path / "gatehouse.db", tmp_path / "away.db"
    async with serving(sqlite_url, audit_file, patience) as storage:
        event = candidate()
        there.rename(away)
        for _ in range(2):
            with pytest.raises(Unavailable):
                await storage.admissions.admit(event)
            with pytest.raises(Unavailable):
                await storage.ready()
        assert not there.exists()
        away.rename(there)
        assert isinstance(await storage.admissions.admit(event), Admitted)
        await storage.ready()


async def test_what_was_refused_by_a_rule_costs_nothing_in_the_audit(storage: Storage, audit_file: Path) -> None:
    before = size(audit_file)
    assert isinstance(await storage.admissions.admit(candidate(run=None)), Refused)
    assert size(audit_file) == before


async def test_memory_does_not_grow_with_the_number_of_admissions(storage: Storage) -> None:
    async def admit_many() -> None:
        for _ in range(20):
            await asyncio.gather(*(storage.admissions.admit(candidate()) for _ in range(2 * CHUNK)))

    await admit_many()
    tracemalloc.start()
    try:
        await admit_many()
        before, _ = tracemalloc.get_traced_memory()
        await admit_many()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 200_000
