from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from handlers.coordinator.execution.engine import Engine, Stride, store
from storage.errors import Unavailable
from storage.execution.records import Claim

pytestmark = pytest.mark.anyio

# Ends as a power cut would, in the second stride of its only body.
KILLED = """
import asyncio, os, sys
from pathlib import Path
from handlers.coordinator.execution.engine import Engine, store
from storage.execution.records import Claim

strides = 0

async def stride(claim):
    global strides
    strides += 1
    if strides == 2:
        os._exit(9)
    return True

async def run():
    engine = Engine(store("sqlite:///", Path(sys.argv[1])), stride, executor="here")
    engine.launch()
    await engine.start(Claim("a", 1))
    await asyncio.Event().wait()

asyncio.run(run())
"""


@contextlib.asynccontextmanager
async def launched(opened: sa.Engine, stride: Stride) -> AsyncIterator[Engine]:
    engine = Engine(opened, stride, executor="here")
    engine.launch()
    try:
        yield engine
    finally:
        await engine.close(patience_seconds=5)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - that is what it is for
            await asyncio.sleep(0.005)


async def test_a_body_strides_until_its_claim_is_done_and_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strides: Counter[str] = Counter()
    ends = 0

    async def stride(claim: Claim) -> bool:
        assert claim in engine.carried
        strides[claim.run_id] += 1
        if claim.run_id == "fault":
            raise RuntimeError("a fault")
        if claim.run_id == "away":
            raise Unavailable("the database is away")
        await asyncio.sleep(0.01)
        return strides[claim.run_id] % 3 > 0

    def ended() -> None:
        nonlocal ends
        ends += 1

    file = tmp_path / "engine.db"
    async with launched(store("sqlite:///", file), stride) as engine:
        engine.on_end = ended
        once = Claim("once", 1)
        # The same claim twice at once: as case 13 of the public reports has it.
        await asyncio.gather(*(engine.start(each) for each in (once, once, Claim("fault", 2), Claim("away", 3))))
        await until(lambda: ends == 3)
        assert strides == {"once": 3, "fault": 1, "away": 1}
        assert list(engine.carried) == []
        assert sorted(record.levelno for record in caplog.records) == [logging.WARNING, logging.ERROR]

        # What has ended under a claim is not carried again under it, as where the store knows more than storage.
        await engine.start(once)
        assert strides["once"] == 3
        assert_no_pickle(file)
        await until(lambda: set(states(file)) == {"SUCCESS"})
        await engine.forget()
        assert states(file) == []
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_body_that_was_cut_off_goes_on_after_what_it_had_done(tmp_path: Path) -> None:
    file = tmp_path / "engine.db"
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", KILLED, str(file)], check=False, capture_output=True
    )
    assert killed.returncode == 9, killed.stderr
    claims: list[Claim] = []

    async def stride(claim: Claim) -> bool:
        claims.append(claim)
        return False

    async with launched(store("sqlite:///", file), stride):
        await until(lambda: bool(claims))
    assert claims == [Claim("a", 1)]


async def test_at_the_end_no_stride_begins_and_the_one_under_way_is_waited_for(tmp_path: Path) -> None:
    begun = asyncio.Event()
    done = 0

    async def stride(_: Claim) -> bool:
        nonlocal done
        begun.set()
        await asyncio.sleep(0.1)
        done += 1
        return True

    async with launched(store("sqlite:///", tmp_path / "engine.db"), stride) as engine:
        await engine.start(Claim("a", 1))
        await begun.wait()
        await engine.close(patience_seconds=0)
        assert (done, list(engine.carried)) == (0, [Claim("a", 1)])
    assert (done, list(engine.carried)) == (1, [])


async def test_a_damaged_store_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "engine.db"
    file.write_bytes(b"no database at all" * 100)
    strides = []

    async def stride(claim: Claim) -> bool:
        strides.append(claim)
        return False

    async with launched(store("sqlite:///", file), stride) as engine:
        await engine.start(Claim("a", 1))
        await until(lambda: bool(strides))
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def states(file: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return [state for (state,) in connection.execute("SELECT status FROM workflow_status")]


def assert_no_pickle(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        found = {row[0] for row in connection.execute("SELECT serialization FROM workflow_status")}
    assert found == {"gatehouse-json"}
