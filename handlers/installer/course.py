"""The course of one attempt: its steps one after the other, told of as they go, and why it failed where it did."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from handlers.installer.lines import Lines
from handlers.installer.record import Record
from handlers.steps import runner
from handlers.steps.plan import Step
from handlers.steps.runner import StepFailed, Surroundings
from storage.installer.events import NewEvent

STOPPED: Final = "the server was stopped"
STORAGE: Final = "the database could not be written for too long"

# A command is ended, and what it wrote is taken, within so long of the server's stop.
_STOP_SECONDS: Final = 1.3


class Course:
    """Runs the steps and puts their events into the record; `around.giving_up` is the server's stop."""

    def __init__(self, record: Record, around: Surroundings) -> None:
        self._record = record
        self._around = around
        self._step: str | None = None

    async def run(self, plan: Sequence[Step], writing: asyncio.Task[None]) -> str | None:
        """Run the steps; returns why they failed, or None.

        They are given up where what they write cannot be written, or where the record's `writing` has ended: then
        another process has ended the attempt.
        """
        steps = asyncio.create_task(self._steps(plan))
        hopeless = asyncio.create_task(self._record.hopeless.wait())
        late = asyncio.create_task(self._late())
        try:
            await asyncio.wait({steps, writing, hopeless, late}, return_when=asyncio.FIRST_COMPLETED)
            if steps.done():
                return steps.result()
            return STORAGE if hopeless.done() else STOPPED
        finally:
            for task in (steps, hopeless, late):
                task.cancel()
            await asyncio.wait({steps, hopeless, late})

    def end(self, detail: str | None) -> None:
        """Put the verdict, and before it the end of a step that has none."""
        if detail is None:
            self._record.put(NewEvent("verdict", outcome="succeeded"))
            return
        if self._step is not None:
            self._record.put(NewEvent("step", step=self._step, status="failed", detail=detail))
        self._record.put(NewEvent("verdict", outcome="failed", detail=detail))

    async def _steps(self, plan: Sequence[Step]) -> str | None:
        for step in plan:
            if self._around.giving_up.is_set():
                return STOPPED
            if failure := await self._run(step):
                return failure
        return None

    async def _run(self, step: Step) -> str | None:
        self._step = step.name
        self._record.put(NewEvent("step", step=step.name, status="started"))
        try:
            await runner.run(step.command, self._around, Lines(), self._take)
        except StepFailed as failure:
            if self._around.giving_up.is_set():
                return STOPPED
            self._record.put(NewEvent("step", step=step.name, status="failed", detail=str(failure)))
            self._step = None
            return f"step {step.name} failed: {failure}"
        self._record.put(NewEvent("step", step=step.name, status="succeeded"))
        self._step = None
        return None

    async def _take(self, line: str) -> None:
        self._record.put(NewEvent("log", step=self._step, line=line))
        await self._record.room()

    async def _late(self) -> None:
        """Wait until a stopping server can wait no longer."""
        await self._around.giving_up.wait()
        await asyncio.sleep(_STOP_SECONDS)
