from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

import pytest

from storage import process_writer
from storage.aggregates import Aggregates
from storage.connections import engine
from storage.database import Limits, Storage
from storage.errors import AuditUnavailable, Broken, Overloaded, SchemaOutOfDate, StorageError, Unavailable, Unstorable
from storage.events import Admitted
from storage.holds import HoldState
from storage.opening import Place
from storage.process_writer import Child
from storage.readers import Readers
from storage.refusals import Refused
from storage.runs import RUNS
from storage.transaction import Transaction
from storage.verification import verify
from tests.storage.work import NODE, PACKAGE, admit, at_once, candidate, new_run, open_storage, rows, start
from tests.support.gatehouse import PATIENCE_SECONDS, wait_for
from tests.support.processes import alive

pytestmark = pytest.mark.anyio

STORAGE = Path(process_writer.__file__).parent
# An integer that neither database can store.
UNSTORABLE = new_run(deadline_seconds=2**70)
ROOMY = Limits(waiting=4096)


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop that a server has, whose pipes are others than asyncio's."""
    return "asyncio", {"use_uvloop": True}


def echo(_: Transaction, items: Sequence[Any]) -> Sequence[Any]:
    return items


def fail(transaction: Transaction, items: Sequence[Any]) -> NoReturn:
    transaction.record("failed", str(items[0]), {})
    raise ZeroDivisionError


def descriptors(_: Transaction, items: Sequence[None]) -> list[list[str]]:
    """What the descriptors of the process that commits lead to, its streams excepted."""
    return [leads_to(os.getpid()) for _ in items]


def leads_to(pid: int) -> list[str]:
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        # That of the folder itself is closed by now.
        with contextlib.suppress(FileNotFoundError):
            if int(each.name) > 2:
                found.append(str(each.readlink()))
    return found


class Beside:
    """Storage beside a child, and how often that was lost."""

    def __init__(self, storage: Storage, child: Child, batches: list[int], losses: list[None]) -> None:
        self.storage = storage
        self.child = child
        self.batches = batches
        self.losses = losses

    async def submit(self, kind: Callable[[Transaction, Sequence[Any]], Sequence[Any]], item: Any) -> Any:
        return await self.storage.writer.submit(kind, item)


def place(url: str, audit_file: Path) -> Place:
    return Place(url=url, node=NODE, audit_file=audit_file, busy_milliseconds=200)


@contextlib.asynccontextmanager
async def beside(url: str, audit_file: Path, limits: Limits = ROOMY) -> AsyncIterator[Beside]:
    batches: list[int] = []
    losses: list[None] = []
    at = place(url, audit_file)
    child = process_writer.start(at, recovery_only=False)
    storage = await Storage.open_beside(
        at, child, recovery_only=False, limits=limits, on_commit=batches.append, on_loss=lambda: losses.append(None)
    )
    try:
        yield Beside(storage, child, batches, losses)
    finally:
        await storage.close()
        assert not alive(child.pid)


@pytest.fixture
async def opened(url: str, audit_file: Path) -> AsyncIterator[Beside]:
    async with beside(url, audit_file) as made:
        await made.storage.workflows.apply(PACKAGE.digest, PACKAGE.snapshot, PACKAGE.definitions)
        yield made


@pytest.fixture
async def on_sqlite(sqlite_url: str, audit_file: Path) -> AsyncIterator[Beside]:
    async with beside(sqlite_url, audit_file) as made:
        yield made


async def test_outcomes_of_each_kind_come_back_as_they_are(opened: Beside, url: str, audit_file: Path) -> None:
    storage, event, begun = opened.storage, candidate(), start()
    first, again, refused, held, started = await asyncio.gather(
        storage.admissions.admit(event),
        storage.admissions.admit(event),
        storage.admissions.admit(candidate(activation="sha256:" + "0" * 64)),
        storage.holds.restore("restored"),
        storage.runs.start(begun),
    )
    assert isinstance(first, Admitted)
    assert isinstance(again, Admitted)
    assert (first.new, again.new, first.run_id) == (True, False, again.run_id)
    assert isinstance(refused, Refused)
    assert isinstance(held, HoldState)
    assert held.admission_held
    assert len(rows(url, RUNS)) == len({run for run in (first, again) if run.new})
    assert isinstance(started, Refused)
    assert verify(url, node=NODE, audit_file=audit_file).faults == ()


async def test_an_item_that_cannot_be_stored_fails_alone(opened: Beside, url: str) -> None:
    outcomes = await asyncio.gather(
        *map(opened.storage.admissions.admit, [candidate(), candidate(run=UNSTORABLE), candidate()]),
        opened.submit(fail, "x"),
        opened.submit(echo, "y"),
        return_exceptions=True,
    )
    assert [type(each) for each in outcomes] == [Admitted, Unstorable, Admitted, Unstorable, str]
    assert str(outcomes[1]) == "this item cannot be stored"
    assert len(rows(url, RUNS)) == 2
    await admit(opened.storage)


async def test_an_item_that_cannot_be_sent_fails_alone_and_leaves_the_others_their_order(on_sqlite: Beside) -> None:
    outcomes = await asyncio.gather(
        on_sqlite.submit(echo, 1),
        on_sqlite.submit(echo, lambda: 2),
        on_sqlite.submit(lambda _, items: items, 3),
        on_sqlite.submit(echo, 4),
        return_exceptions=True,
    )
    assert [type(each) if isinstance(each, Exception) else each for each in outcomes] == [1, Unstorable, Unstorable, 4]
    assert await asyncio.gather(*(on_sqlite.submit(echo, number) for number in range(100))) == list(range(100))


def nothing_there(folder: Path) -> tuple[str, Path]:
    return f"sqlite:///{folder / 'none.db'}", folder / "audit.jsonl"


def empty(folder: Path) -> tuple[str, Path]:
    (folder / "empty.db").touch()
    return f"sqlite:///{folder / 'empty.db'}", folder / "audit.jsonl"


def garbage(folder: Path) -> tuple[str, Path]:
    (folder / "garbage.db").write_bytes(b"garbage" * 1000)
    return f"sqlite:///{folder / 'garbage.db'}", folder / "audit.jsonl"


def no_audit_file(folder: Path) -> tuple[str, Path]:
    (folder / "audit.jsonl").mkdir()
    return f"sqlite:///{folder / 'gatehouse.db'}", folder / "audit.jsonl"


def no_server(folder: Path) -> tuple[str, Path]:
    return "postgresql://nobody@127.0.0.1:1/none", folder / "audit.jsonl"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (nothing_there, Unavailable),
        (empty, SchemaOutOfDate),
        (garbage, Broken),
        (no_audit_file, AuditUnavailable),
        (no_server, Unavailable),
    ],
)
async def test_what_keeps_the_child_from_opening_is_raised_as_if_it_were_opened_here(
    fault: Callable[[Path], tuple[str, Path]], error: type[StorageError], sqlite_url: str, tmp_path: Path
) -> None:
    assert sqlite_url
    url, audit_file = fault(tmp_path)
    with pytest.raises(error) as here:
        async with open_storage(url, audit_file):
            pass
    with pytest.raises(error) as there:
        async with beside(url, audit_file):
            pass
    assert (type(there.value), str(there.value)) == (type(here.value), str(here.value))


async def test_a_url_of_no_kind_that_is_known_is_a_value_error_here_too(audit_file: Path) -> None:
    with pytest.raises(ValueError, match="database URL"):
        async with beside("mysql://x/y", audit_file):
            pass


async def test_a_child_that_ends_before_it_has_opened_is_unavailable(
    sqlite_url: str, audit_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_writer, "Opened", lambda *_, **__: os._exit(1))
    with pytest.raises(Unavailable, match="has ended"):
        async with beside(sqlite_url, audit_file):
            pass


def aggregates() -> Aggregates:
    reading = engine("sqlite:////nowhere/none.db", "read")
    readers = Readers(reading, size=1, waiting=0)
    return Aggregates(process_writer._Absent(waiting=0), readers, reading.dialect, recovery_only=False)


def submitted() -> Iterator[tuple[str, str]]:
    """Each module of storage and what it submits there, as it is spelled."""
    for file in sorted(STORAGE.rglob("*.py")):
        module = ".".join(file.relative_to(STORAGE.parent).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "self._writer.submit":
                yield module, ast.unparse(node.args[0])


def parts(root: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Each aggregate below one, with its path."""
    for name, value in vars(root).items():
        if type(value).__module__.startswith("storage.") and hasattr(value, "__dict__"):
            yield path + name, value
            yield from parts(value, f"{path}{name}.")


def found_again(kind: Any, here: Aggregates, there: Aggregates) -> Any:
    pickled = process_writer._pickled_kind(kind, dict(process_writer._named(here)))
    return process_writer._KindUnpickler(pickled, there).load()


@pytest.mark.parametrize(("module", "spelled"), sorted(set(submitted())))
def test_every_kind_of_work_is_named_here_and_found_there(module: str, spelled: str) -> None:
    here, there = aggregates(), aggregates()
    if not spelled.startswith("self."):
        kind = getattr(importlib.import_module(module), spelled)
        assert found_again(kind, here, there) == kind
        return
    name = spelled.removeprefix("self.")
    owners = [path for path, part in parts(here) if type(part).__module__ == module and has(part, name)]
    assert owners
    for owner in owners:
        kind = attrgetter(f"{owner}.{name}")
        assert found_again(kind(here), here, there) == kind(there) != kind(here)


def has(part: object, name: str) -> bool:
    return hasattr(part, name.partition(".")[0])


def test_there_are_kinds_of_work_of_every_aggregate_that_writes() -> None:
    assert len(set(submitted())) > 35


async def test_closing_waits_for_what_was_submitted(url: str, audit_file: Path) -> None:
    async with beside(url, audit_file) as made:
        waiting = [asyncio.create_task(made.submit(echo, number)) for number in range(1000)]
        await asyncio.sleep(0)
        await made.storage.close()
        assert await asyncio.gather(*waiting) == list(range(1000))
        with pytest.raises(Unavailable):
            await made.submit(echo, 0)
        await made.storage.close()
    assert made.losses == []
    assert sum(made.batches) == 1000


async def test_a_child_that_is_killed_fails_what_waits_and_all_that_comes_and_is_told_of_once(opened: Beside) -> None:
    os.kill(opened.child.pid, signal.SIGSTOP)
    batches = list(opened.batches)
    waiting = [asyncio.create_task(opened.storage.admissions.admit(candidate())) for _ in range(50)]
    await asyncio.sleep(0)
    os.kill(opened.child.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_SECONDS):
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in outcomes} == {Unavailable}
    assert len({id(each) for each in outcomes}) == 50
    for _ in range(20):
        with pytest.raises(Unavailable):
            await opened.storage.admissions.admit(candidate())
    assert opened.losses == [None]
    assert opened.batches == batches
    await opened.storage.ready()


async def test_what_is_submitted_just_as_the_child_is_killed_fails_too(on_sqlite: Beside) -> None:
    os.kill(on_sqlite.child.pid, signal.SIGKILL)
    await asyncio.to_thread(wait_for, lambda: not alive(on_sqlite.child.pid))
    async with asyncio.timeout(PATIENCE_SECONDS):
        outcomes = await asyncio.gather(*(on_sqlite.submit(echo, 1) for _ in range(50)), return_exceptions=True)
    assert {type(each) for each in outcomes} == {Unavailable}
    await asyncio.to_thread(wait_for, lambda: on_sqlite.losses)


async def test_huge_items_pass(on_sqlite: Beside) -> None:
    huge = os.urandom(4 << 20)
    assert await on_sqlite.submit(echo, huge) == huge
    numbered = [number.to_bytes(1, "big") + huge for number in range(50)]
    assert await asyncio.gather(*(on_sqlite.submit(echo, each) for each in numbered)) == numbered


async def test_a_child_that_does_not_read_never_blocks_the_loop(on_sqlite: Beside) -> None:
    os.kill(on_sqlite.child.pid, signal.SIGSTOP)
    items = [number.to_bytes(2, "big") * 10_000 for number in range(1000)]
    waiting = [asyncio.create_task(on_sqlite.submit(echo, each)) for each in items]
    for _ in range(10):
        await asyncio.sleep(0.001)
    await on_sqlite.storage.ready()
    assert not any(each.done() for each in waiting)
    os.kill(on_sqlite.child.pid, signal.SIGCONT)
    assert await asyncio.gather(*waiting) == items


async def test_beyond_the_bound_work_is_refused_at_once(sqlite_url: str, audit_file: Path) -> None:
    async with beside(sqlite_url, audit_file, Limits(waiting=3)) as made:
        os.kill(made.child.pid, signal.SIGSTOP)
        waiting = [asyncio.create_task(made.submit(echo, number)) for number in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await made.submit(echo, 3)
        os.kill(made.child.pid, signal.SIGCONT)
        assert await asyncio.gather(*waiting) == [0, 1, 2]
        assert await made.submit(echo, 3) == 3


async def test_what_comes_at_once_is_committed_together_but_for_its_beginning(opened: Beside) -> None:
    os.kill(opened.child.pid, signal.SIGSTOP)
    opened.batches.clear()
    asyncio.get_running_loop().call_later(0.01, os.kill, opened.child.pid, signal.SIGCONT)
    await at_once(opened.storage, *(candidate() for _ in range(50)))
    assert sum(opened.batches) == 50
    assert len(opened.batches) <= 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_that_is_meant_for_the_parent_does_not_end_the_child(on_sqlite: Beside, number: int) -> None:
    os.kill(on_sqlite.child.pid, number)
    assert await on_sqlite.submit(echo, 1) == 1


async def test_the_child_keeps_nothing_that_is_the_parents(sqlite_url: str, audit_file: Path, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w"), socket.socket():
        async with beside(sqlite_url, audit_file) as made:
            held = await made.submit(descriptors, None)
    beside_pipes = {each for each in held if not each.startswith("pipe:")}
    names = ("gatehouse.db", "gatehouse.db-wal", "gatehouse.db-shm", "audit.jsonl", "audit.jsonl.lock")
    assert beside_pipes <= {str(tmp_path / name) for name in names}
    assert len([each for each in held if each.startswith("pipe:")]) == 2


def test_frames_are_put_together_from_pieces_of_any_size() -> None:
    values = [None, b"x" * 1000, [1, 2]]
    sent = b"".join(part for each in values for part in process_writer._framed(each))
    for size in (1, 3, 4, 5, 100, len(sent)):
        frames = process_writer._Frames()
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        assert [value for piece in pieces for value in frames.whole(piece)] == values


def test_a_descriptor_beyond_those_that_select_takes_is_none_the_worse(sqlite_url: str, audit_file: Path) -> None:
    many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:

        async def work() -> None:
            async with beside(sqlite_url, audit_file) as made:
                assert made.child.requests > 1024
                assert await made.submit(echo, 1) == 1

        asyncio.run(work())
    finally:
        for each in many:
            os.close(each)


async def test_a_child_that_does_not_finish_is_ended_at_the_close(
    on_sqlite: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_writer, "END_SECONDS", 0.1)
    os.kill(on_sqlite.child.pid, signal.SIGSTOP)
    waiting = asyncio.create_task(on_sqlite.submit(echo, 1))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await on_sqlite.storage.close()
    with pytest.raises(Unavailable):
        await waiting
    assert not alive(on_sqlite.child.pid)
