from __future__ import annotations

import asyncio
import logging

import pytest

from tools import keeper
from tools.keeper import kept


def test_work_runs_beside_the_block_and_is_told_to_end_with_it() -> None:
    async def run() -> list[str]:
        told: list[str] = []
        begun = asyncio.Event()

        async def work(stopping: asyncio.Event) -> None:
            begun.set()
            await stopping.wait()
            told.append("ended")

        async with kept(work, asyncio.Event()):
            await begun.wait()
            assert told == []
        return told

    assert asyncio.run(run()) == ["ended"]


def test_work_that_fails_is_logged_and_begins_anew(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        times = 0
        again = asyncio.Event()

        async def work(stopping: asyncio.Event) -> None:
            nonlocal times
            times += 1
            if times < 3:
                raise RuntimeError("a fault")
            again.set()
            await stopping.wait()

        async with kept(work, asyncio.Event()):
            await again.wait()

    monkeypatch.setattr(keeper, "PAUSE_SECONDS", 0.01)
    asyncio.run(run())
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert all(record.exc_info for record in caplog.records)


@pytest.mark.parametrize("deaf", [True, False])
def test_work_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch, deaf: bool) -> None:
    async def run() -> str:
        ended = "by itself"

        async def work(_: asyncio.Event) -> None:
            nonlocal ended
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended = "cut off"
                if not deaf:
                    raise

        async with kept(work, asyncio.Event(), patience_seconds=0.01):
            await asyncio.sleep(0)
        return ended

    monkeypatch.setattr(keeper, "PAUSE_SECONDS", 0.01)
    assert asyncio.run(run()) == "cut off"


def test_the_stop_may_come_before_the_end_of_the_block() -> None:
    async def run() -> bool:
        stopping, begun, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def work(stop: asyncio.Event) -> None:
            begun.set()
            await stop.wait()
            ended.set()

        async with kept(work, stopping):
            await begun.wait()
            stopping.set()
            await ended.wait()
        return True

    assert asyncio.run(run())


def test_a_failing_block_ends_the_work_and_fails() -> None:
    async def run() -> None:
        async def work(stopping: asyncio.Event) -> None:
            await stopping.wait()

        async with kept(work, asyncio.Event()):
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - it is the block's own.
        asyncio.run(run())
