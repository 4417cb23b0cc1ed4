from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import cast

import pytest

from handlers.installer import course as course_module
from handlers.installer.course import STOPPED, STORAGE, Course
from handlers.installer.record import Record
from handlers.steps.plan import Command, Step
from handlers.steps.runner import Surroundings
from storage.installer.events import NewEvent
from tests.handlers.installer.reading import until
from tests.support.processes import alive

pytestmark = pytest.mark.anyio


class Noted:
    """A record that keeps what it is given, and may have no room for more."""

    def __init__(self) -> None:
        self.events: list[NewEvent] = []
        self.hopeless = asyncio.Event()
        self.full = False

    def put(self, event: NewEvent) -> None:
        self.events.append(event)

    async def room(self) -> None:
        if self.full:
            await asyncio.Event().wait()

    @property
    def lines(self) -> list[str | None]:
        return [event.line for event in self.events if event.type == "log"]


class Running:
    """A course on its way."""

    def __init__(self, folder: Path, *scripts: str) -> None:
        self.record = Noted()
        self.stopping = asyncio.Event()
        self._around = Surroundings(
            environment={"PATH": os.environ["PATH"]},
            mark=folder / "step",
            folder=folder,
            giving_up=self.stopping,
            grace_seconds=0.1,
            hurried_grace_seconds=0.1,
        )
        self._plan = [
            Step(f"step-{number}", Command(("sh", "-c", script), 30), "") for number, script in enumerate(scripts)
        ]
        self.course = Course(cast("Record", self.record), self._around)
        self.writing = asyncio.create_task(asyncio.sleep(60))

    async def run(self) -> str | None:
        """Run to the verdict; returns why it failed."""
        try:
            detail = await self.course.run(self._plan, self.writing)
        finally:
            self.writing.cancel()
        self.course.end(detail)
        return detail


async def test_steps_and_lines_are_told_in_order_up_to_the_verdict(tmp_path: Path) -> None:
    running = Running(tmp_path, "echo a", "echo b")
    assert await running.run() is None
    assert running.record.events == [
        NewEvent("step", "step-0", "started"),
        NewEvent("log", "step-0", line="a"),
        NewEvent("step", "step-0", "succeeded"),
        NewEvent("step", "step-1", "started"),
        NewEvent("log", "step-1", line="b"),
        NewEvent("step", "step-1", "succeeded"),
        NewEvent("verdict", outcome="succeeded"),
    ]


async def test_the_first_step_that_fails_is_the_last(tmp_path: Path) -> None:
    running = Running(tmp_path, "exit 2", "echo never")
    assert await running.run() == "step step-0 failed: sh ended with code 2"
    assert running.record.events[1:] == [
        NewEvent("step", "step-0", "failed", detail="sh ended with code 2"),
        NewEvent("verdict", outcome="failed", detail="step step-0 failed: sh ended with code 2"),
    ]


async def test_a_stop_ends_the_step_that_runs_and_takes_its_last_lines(tmp_path: Path) -> None:
    running = Running(tmp_path, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done", "echo never")
    task = asyncio.create_task(running.run())
    await until(lambda: running.record.lines)
    running.stopping.set()
    assert await task == STOPPED
    assert running.record.lines[-1] == "bye"
    assert running.record.events[-2:] == [
        NewEvent("step", "step-0", "failed", detail=STOPPED),
        NewEvent("verdict", outcome="failed", detail=STOPPED),
    ]


async def test_a_stop_does_not_wait_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course_module, "_STOP_SECONDS", 0.1)
    running = Running(tmp_path, "echo up; exec sleep 60")
    running.record.full = True
    task = asyncio.create_task(running.run())
    await until(lambda: running.record.lines)
    running.stopping.set()
    assert await task == STOPPED


@pytest.mark.parametrize("ends", ["hopeless", "writing"])
async def test_steps_are_given_up_when_nothing_can_be_written_any_more(tmp_path: Path, ends: str) -> None:
    running = Running(tmp_path, "echo $$; exec sleep 60")
    running.record.full = True
    task = asyncio.create_task(running.run())
    await until(lambda: running.record.lines)
    if ends == "hopeless":
        running.record.hopeless.set()
        assert await task == STORAGE
    else:
        running.writing.cancel()
        await task
    assert not alive(int(str(running.record.lines[0])))


async def test_a_course_that_is_given_up_from_outside_ends_its_command(tmp_path: Path) -> None:
    running = Running(tmp_path, "trap '' TERM; echo $$; while :; do sleep 0.01; done")
    task = asyncio.create_task(running.run())
    await until(lambda: running.record.lines)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(int(str(running.record.lines[0])))
