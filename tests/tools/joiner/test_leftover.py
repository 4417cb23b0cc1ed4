from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gatehouse import wait_for
from tests.tools.joiner.test_runner import alive
from tools.joiner import leftover
from tools.joiner.leftover import marked


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "step"


@pytest.fixture
def orphan(mark: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command that still runs although the joiner that had marked it was killed."""
    with marked(mark) as lock:
        started = tmp_path / "started"
        script = f"trap '' HUP; touch {started}; while :; do sleep 0.1; done"
        process = subprocess.Popen(["sh", "-c", script], start_new_session=True, pass_fds=[lock.descriptor])
        lock.note(process.pid)
        left = mark.with_name("left")
        mark.rename(left)
    left.rename(mark)
    wait_for(started.exists)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end(mark: Path) -> None:
    asyncio.run(leftover.end(mark, grace_seconds=0.2))


def test_a_command_that_outlived_its_joiner_is_ended(mark: Path, orphan: subprocess.Popen[bytes]) -> None:
    end(mark)
    assert orphan.wait(10) == -signal.SIGTERM


def test_what_a_step_left_behind_for_good_is_let_alone(mark: Path, orphan: subprocess.Popen[bytes]) -> None:
    with marked(mark):
        pass
    assert not mark.exists()
    end(mark)
    assert alive(orphan.pid)


def test_a_mark_that_nobody_holds_ends_nobody(mark: Path) -> None:
    end(mark)
    mark.write_text(str(os.getpid()))
    end(mark)
    mark.write_text("")
    end(mark)
