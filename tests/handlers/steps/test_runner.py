from __future__ import annotations

import asyncio
import errno
import os
import signal
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from handlers.steps import runner
from handlers.steps.plan import Command
from handlers.steps.runner import StepFailed, Surroundings
from tests.support.gatehouse import wait_for
from tests.support.processes import alive


class Whole:
    """Lines as they come."""

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, data: bytes) -> list[str]:
        *ended, self._begun = (self._begun + data).split(b"\n")
        return [line.decode() for line in ended]

    def end(self) -> list[str]:
        return [self._begun.decode()] if self._begun else []


class Run:
    """A command that has run: its lines, and why it failed."""

    def __init__(self, script: str, *, timeout: int = 30, grace: float = 5.0, rest: float = 0.0) -> None:
        self.lines: list[str] = []
        self.failure = ""
        self.giving_up = asyncio.Event()
        self._command = Command(("sh", "-c", script), timeout)
        self._grace = grace
        self._rest = rest

    async def go(self) -> Run:
        with tempfile.TemporaryDirectory() as folder:
            around = Surroundings(
                environment={"PATH": os.environ["PATH"], "GREETING": "hello"},
                mark=Path(folder) / "step",
                folder=Path(folder),
                grace_seconds=self._grace,
                rest_seconds=self._rest,
                giving_up=self.giving_up,
            )
            try:
                await runner.run(self._command, around, Whole(), self.take)
            except StepFailed as failure:
                self.failure = str(failure)
        return self

    async def take(self, line: str) -> None:
        await asyncio.sleep(0)
        self.lines.append(line)


def ran(script: str, *, timeout: int = 30, grace: float = 5.0, rest: float = 0.0) -> Run:
    return asyncio.run(Run(script, timeout=timeout, grace=grace, rest=rest).go())


def test_the_lines_of_both_outputs_come_in_order() -> None:
    done = ran("echo one; echo two >&2; printf '\\nthree\\nno end'")
    assert (done.lines, done.failure) == (["one", "two", "", "three", "no end"], "")


def test_a_command_finds_its_environment_and_its_folder_and_no_input() -> None:
    assert ran('cat; echo "$GREETING" *').lines == ["hello step"]


def test_ten_thousand_lines_come_whole() -> None:
    assert ran("seq 10000").lines == [str(number) for number in range(1, 10_001)]


@pytest.mark.parametrize(
    ("script", "failure"), [("echo x; exit 3", "sh ended with code 3"), ("kill -9 $$", "sh ended by signal 9")]
)
def test_another_end_than_0_is_a_failure(script: str, failure: str) -> None:
    assert ran(script).failure == failure


def test_a_program_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    around = Surroundings(environment={}, mark=tmp_path / "step")

    async def take(_: str) -> None:
        pytest.fail("no output")

    with pytest.raises(StepFailed, match=r"^/nowhere/x cannot be run: No such file or directory$"):
        asyncio.run(runner.run(Command(("/nowhere/x",), 5), around, Whole(), take))


def test_a_name_that_no_environment_can_hold_is_a_failure(tmp_path: Path) -> None:
    around = Surroundings(environment={"GATEHOUSE_RAFT_PEERS": "a\0b=http://b:1"}, mark=tmp_path / "step")

    async def take(_: str) -> None:
        pytest.fail("no output")

    with pytest.raises(StepFailed, match=r"^sh cannot be run: its environment has a NUL$"):
        asyncio.run(runner.run(Command(("sh", "-c", "echo x"), 5), around, Whole(), take))


def test_a_command_that_nobody_would_find_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = []

    def fail(_: int, data: bytes, __: int) -> NoReturn:
        groups.append(int(data))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", fail)
    done = ran("sleep 60", grace=0.1)
    assert done.failure == "sh cannot be run: the mark of its step cannot be written: No space left on device"
    assert not alive(groups[0])


def test_a_command_that_cannot_be_marked_is_not_run(tmp_path: Path) -> None:
    around = Surroundings(environment=dict(os.environ), mark=tmp_path / "missing/step", folder=tmp_path)

    async def take(_: str) -> None:
        pytest.fail("no output")

    with pytest.raises(StepFailed, match=r"^touch cannot be run: the mark .* cannot be written: No such file or dir"):
        asyncio.run(runner.run(Command(("touch", "here"), 5), around, Whole(), take))
    assert not (tmp_path / "here").exists()


def test_a_process_that_is_left_behind_is_not_waited_for_and_lives(tmp_path: Path) -> None:
    done = ran(f"sleep 60 & echo $! >{tmp_path}/pid; echo up")
    pid = int((tmp_path / "pid").read_text())
    assert (done.lines, done.failure, alive(pid)) == (["up"], "", True)
    os.kill(pid, signal.SIGKILL)


def test_a_command_that_closes_its_output_is_waited_for() -> None:
    done = ran("exec >/dev/null 2>&1; sleep 0.1; exit 4")
    assert done.failure == "sh ended with code 4"


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    done = ran(f"trap 'echo bye' TERM; sleep 60 & echo $! >{tmp_path}/pid; wait; wait", timeout=1, grace=0.1)
    assert (done.lines, done.failure) == (["bye"], "sh did not end within 1 s")
    wait_for(lambda: not alive(int((tmp_path / "pid").read_text())))


def test_a_command_that_does_not_heed_is_killed_when_the_step_is_given_up(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    run = Run(f"trap '' TERM; echo $$ >{file}.new; mv {file}.new {file}; while :; do sleep 0.1; done", grace=0.1)

    async def give_up() -> None:
        task = asyncio.create_task(run.go())
        while not file.exists():  # noqa: ASYNC110 - the command makes the file
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert not alive(int(file.read_text()))


def test_a_command_that_is_given_up_is_ended_and_its_last_lines_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "up"
    run = Run(f"trap 'echo bye; exit 0' TERM; touch {file}; while :; do sleep 0.05; done")

    async def give_up() -> None:
        task = asyncio.create_task(run.go())
        while not file.exists():  # noqa: ASYNC110 - the command makes the file
            await asyncio.sleep(0.01)
        run.giving_up.set()
        await task

    asyncio.run(give_up())
    assert (run.lines[-1:], run.failure) == (["bye"], "sh was ended")


def test_what_a_command_started_may_write_a_little_longer() -> None:
    assert ran("(sleep 0.2; echo late) & echo up", rest=5).lines == ["up", "late"]


def test_who_goes_on_writing_does_not_hold_up_the_end(tmp_path: Path) -> None:
    done = ran(f"(while :; do echo on; sleep 0.01; done) & echo $! >{tmp_path}/pid", rest=0.2)
    assert (set(done.lines), done.failure) == ({"on"}, "")
    wait_for(lambda: not alive(int((tmp_path / "pid").read_text())))


def test_a_command_waits_for_who_takes_its_lines(tmp_path: Path) -> None:
    written: list[str] = []
    around = Surroundings(environment={"PATH": os.environ["PATH"]}, mark=tmp_path / "step")

    async def take(line: str) -> None:
        written.append(line)
        if len(written) == 1:
            await asyncio.sleep(0.2)

    asyncio.run(runner.run(Command(("sh", "-c", "seq 20000"), 30), around, Whole(), take))
    assert len(written) == 20_000
