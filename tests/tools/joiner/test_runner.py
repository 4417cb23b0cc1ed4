from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest

from tests.support.gatehouse import wait_for
from tools.joiner import runner
from tools.joiner.planfile import Command
from tools.joiner.runner import LINE_CHARACTERS, StepFailed


class Run:
    """A command that has run: its lines, and why it failed."""

    def __init__(self, script: str, *, timeout: int = 30, grace: float = 5.0, **environment: str) -> None:
        self.lines: list[str] = []
        self.failure = ""
        self._command = Command(("sh", "-c", script), timeout)
        self._environment = {"PATH": os.environ["PATH"], **environment}
        self._grace = grace

    async def go(self) -> Run:
        try:
            with tempfile.TemporaryDirectory() as folder:
                mark = Path(folder) / "step"
                await runner.run(self._command, self._environment, self.take, mark=mark, grace_seconds=self._grace)
        except StepFailed as failure:
            self.failure = str(failure)
        return self

    async def take(self, line: str) -> None:
        await asyncio.sleep(0)
        self.lines.append(line)


def ran(script: str, *, timeout: int = 30, grace: float = 5.0, **environment: str) -> Run:
    return asyncio.run(Run(script, timeout=timeout, grace=grace, **environment).go())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def test_the_lines_of_both_outputs_come_in_order() -> None:
    done = ran("echo one; echo two >&2; printf '\\nthree\\r\\nno end'")
    assert (done.lines, done.failure) == (["one", "two", "", "three", "no end"], "")


def test_a_command_finds_its_environment_and_no_input() -> None:
    assert ran('cat; echo "$GATEHOUSE_JOIN_NAME"', GATEHOUSE_JOIN_NAME="n").lines == ["n"]


def test_what_is_no_utf_8_is_replaced_and_what_is_cut_in_a_character_is_not() -> None:
    assert ran("printf 'a\\377b\\n'; printf '\\303'; sleep 0.05; printf '\\251\\n'").lines == ["a\ufffdb", "é"]


def test_a_long_line_becomes_several_and_loses_nothing() -> None:
    lines = ran(f"head -c {LINE_CHARACTERS * 2 + 5} /dev/zero | tr '\\0' x; echo; echo y").lines
    assert [len(line) for line in lines] == [LINE_CHARACTERS, LINE_CHARACTERS, 5, 1]


def test_ten_thousand_lines_come_whole() -> None:
    assert ran("seq 10000").lines == [str(number) for number in range(1, 10_001)]


@pytest.mark.parametrize(
    ("script", "failure"), [("echo x; exit 3", "sh ended with code 3"), ("kill -9 $$", "sh ended by signal 9")]
)
def test_another_end_than_0_is_a_failure(script: str, failure: str) -> None:
    assert ran(script).failure == failure


def test_a_program_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    async def take(_: str) -> None:
        pytest.fail("no output")

    with pytest.raises(StepFailed, match=r"^/nowhere/x cannot be run: No such file or directory$"):
        asyncio.run(runner.run(Command(("/nowhere/x",), 5), {}, take, mark=tmp_path / "step"))


def test_a_name_that_no_environment_can_hold_is_a_failure() -> None:
    done = ran("echo x", GATEHOUSE_RAFT_PEERS="a\0b=http://b:1")
    assert (done.lines, done.failure) == ([], "sh cannot be run: its environment has a NUL")


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


def test_a_command_waits_for_who_takes_its_lines(tmp_path: Path) -> None:
    written: list[str] = []

    async def take(line: str) -> None:
        written.append(line)
        if len(written) == 1:
            await asyncio.sleep(0.2)

    command, environment = Command(("sh", "-c", "seq 20000"), 30), {"PATH": os.environ["PATH"]}
    asyncio.run(runner.run(command, environment, take, mark=tmp_path / "step"))
    assert len(written) == 20_000
