from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import forks

PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("GATEHOUSE_")}
BINDS = {f"GATEHOUSE_{name}_BIND": "127.0.0.1:0" for name in ("CONTROL", "INSTALLER", "JOIN")}


def test_a_command_has_its_arguments_folder_streams_and_exit_code(tmp_path: Path) -> None:
    made = forks.run(["init", "--state", "here", "--json"], environment=PLAIN, cwd=tmp_path, timeout=30)
    assert (made.returncode, made.stderr) == (0, "")
    assert json.loads(made.stdout)
    assert (tmp_path / "here" / "gatehouse.yaml").exists()
    wrong = forks.run(["no-such-command"], environment=PLAIN, timeout=30)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no-such-command" in wrong.stderr


def test_a_command_has_the_environment_that_it_is_given(tmp_path: Path) -> None:
    done = forks.run(["init", "--state", str(tmp_path)], environment=PLAIN | {"GATEHOUSE_NODE": "A B"}, timeout=30)
    assert done.returncode == 1
    assert "GATEHOUSE_NODE" in done.stderr


def test_a_server_runs_until_a_signal_and_tells_how_it_ended(tmp_path: Path) -> None:
    ends = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        with (tmp_path / "log").open("a") as log:
            server = forks.start(["serve", "--state", str(tmp_path / "s")], environment=PLAIN | BINDS, stderr=log)
        assert server.stdout is not None
        with server.stdout:
            assert server.stdout.readline().startswith("control")
            assert server.poll() is None
            os.kill(server.pid, 0)
            with pytest.raises(subprocess.TimeoutExpired):
                server.wait(0)
            server.send_signal(number)
            ends.append(server.wait(30))
        assert server.poll() == ends[-1]
        with pytest.raises(ProcessLookupError):
            os.kill(server.pid, 0)
    assert ends == [0, -signal.SIGKILL]


def test_what_python_reads_at_its_start_needs_a_new_process(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('never as far as that')")
    done = forks.run(["--version"], environment=PLAIN | {"PYTHONPATH": str(tmp_path)}, timeout=30)
    assert "never as far as that" in done.stderr
