from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tools import keeper
from tools.executor import supervisor as module
from tools.executor.supervisor import WAKE_SECONDS, Supervisor
from tools.keeper import kept

# Notes that it was started, then what comes on its standard input, then that it was told to end.
HEEDFUL = """
import os, signal, sys
out = open(sys.argv[1], "a", buffering=1)
def end(*_):
    out.write("ended\\n")
    sys.exit()
signal.signal(signal.SIGTERM, end)
out.write(f"started {os.getpid()}\\n")
while taken := os.read(0, 100):
    out.write(f"woken {len(taken)}\\n")
"""
DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(f"started {os.getpid()}", file=open(sys.argv[1], "a"))
time.sleep(60)
"""
SHORT_LIVED = """
import sys
print("started", file=open(sys.argv[1], "a"))
sys.exit(7)
"""
TELLING = """
import os, sys
names = [name for name in os.environ if "DBOS" in name]
print("started", names, file=open(sys.argv[1], "a"))
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """What the processes note, a line each time."""
    file = tmp_path / "told"
    file.touch()
    return file


@contextlib.asynccontextmanager
async def running(program: str, told: Path) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor([str(told)], command=[sys.executable, "-S", "-c", program])
    async with kept(supervisor.run, asyncio.Event(), patience_seconds=10):
        yield supervisor


def lines(told: Path, word: str) -> list[str]:
    return [line for line in told.read_text().splitlines() if line.startswith(word)]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.005)


@pytest.mark.anyio
async def test_the_executor_starts_when_the_server_answers_and_ends_with_it(told: Path) -> None:
    async with running(HEEDFUL, told) as supervisor:
        supervisor.wake()
        await asyncio.sleep(0.05)
        assert lines(told, "") == []
        supervisor.start()
        await until(lambda: lines(told, "started"))
    assert lines(told, "ended") == ["ended"]


@pytest.mark.anyio
async def test_it_is_woken_at_once_and_then_not_more_often_than_it_could_look(told: Path) -> None:
    async with running(HEEDFUL, told) as supervisor:
        supervisor.start()
        await until(lambda: lines(told, "started"))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while loop.time() < begun + 5 * WAKE_SECONDS:
            supervisor.wake()
            await asyncio.sleep(0.001)
        passed = loop.time() - begun
        await until(lambda: lines(told, "woken"))
    woken = sum(int(line.split()[1]) for line in lines(told, "woken"))
    assert 2 <= woken <= passed / WAKE_SECONDS + 2


@pytest.mark.anyio
async def test_one_that_has_died_is_told_and_started_again(
    told: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeper, "PAUSE_SECONDS", 0.01)
    async with running(SHORT_LIVED, told) as supervisor:
        supervisor.start()
        await until(lambda: len(lines(told, "started")) > 2)
    # The loop has a word of its own where another part of the tests was faster to wait for the process.
    own = [record for record in caplog.records if record.name == "gatehouse.executor"]
    assert {(record.levelno, vars(record)["code"]) for record in own} <= {(logging.ERROR, 7), (logging.ERROR, 255)}
    assert own


@pytest.mark.anyio
async def test_one_that_does_not_end_is_killed(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.05)
    async with running(DEAF, told) as supervisor:
        supervisor.start()
        await until(lambda: lines(told, "started"))
    [started] = lines(told, "started")
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.split()[1]), 0)


@pytest.mark.anyio
async def test_it_sees_no_settings_of_the_engines_own(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBOS__CLOUD", "true")
    async with running(TELLING, told) as supervisor:
        supervisor.start()
        await until(lambda: lines(told, "started"))
    assert lines(told, "started")[0] == "started []"
