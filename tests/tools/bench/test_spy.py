import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.bench import spy
from tools.bench.folded import own, parse
from tools.bench.servers import BenchError
from tools.bench.spy import py_spy, record


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program in the place of py-spy, which sees what it was told as $*."""
    program = folder / "py-spy"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(spy, "py_spy", lambda: str(program))


def test_py_spy_is_told_whom_to_look_at_and_for_how_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told"
    stand_in(tmp_path, monkeypatch, f'echo "$*" > {told}')
    record(123, 5, "raw", tmp_path / "a.txt")
    assert told.read_text().split() == [
        *("record", "--pid=123", "--duration=5", f"--rate={spy.SAMPLES_A_SECOND}", "--format=raw"),
        *(f"--output={tmp_path / 'a.txt'}", "--threads", "--function"),
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Error: Permission Denied: Try running again with elevated permissions", "CAP_SYS_PTRACE"),
        ("Operation not permitted (os error 1)", "CAP_SYS_PTRACE"),
        (
            "Error: Failed to find python version from target process",
            "ended with 1: Error: Failed to find python version",
        ),
    ],
)
def test_what_py_spy_may_not_or_cannot_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, words: str
) -> None:
    stand_in(tmp_path, monkeypatch, f"echo '{said}' >&2; echo 'Stack backtrace:' >&2; exit 1")
    with pytest.raises(BenchError, match=words) as error:
        record(1, 1, "raw", tmp_path / "a.txt")
    assert str(error.value).endswith(said)


def test_py_spy_is_looked_for_beside_python_and_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="pip install py-spy"):
        py_spy()
    (tmp_path / "py-spy").touch(0o755)
    assert py_spy() == str(tmp_path / "py-spy")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "py-spy").touch(0o755)
    assert py_spy() == os.fspath(tmp_path / "bin" / "py-spy")


SPIN = """
def spin():
    while True:
        pass

print("spins", flush=True)
spin()
"""


def test_what_a_process_does_is_seen_by_function(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            record(process.pid, 1, "raw", tmp_path / "spin.txt")
        except BenchError as error:
            pytest.skip(str(error))
        finally:
            process.kill()
    assert next(iter(own(parse((tmp_path / "spin.txt").read_text())))) == "spin (<string>:2)"
