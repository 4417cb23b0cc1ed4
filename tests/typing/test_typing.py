from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SAMPLES = ("answers.py", "refusals.py", "wiring.py")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def mypy(cache: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    options = ["--strict", "--warn-unreachable", "--no-color-output", "--cache-dir", str(cache)]
    command = [sys.executable, "-m", "mypy", *options, *map(str, paths)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_wrong_line_is_a_type_error(cache: Path) -> None:
    ended = mypy(cache, *(HERE / name for name in SAMPLES))
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_no_wrong_line_passes_without_its_ignore(cache: Path, tmp_path: Path) -> None:
    wrong = [line for name in SAMPLES for line in (HERE / name).read_text("utf-8").splitlines() if "# type:" in line]
    copies = [tmp_path / name for name in SAMPLES]
    for copy in copies:
        copy.write_text(re.sub(r"  # type: ignore.*", "", (HERE / copy.name).read_text("utf-8")), "utf-8")
    ended = mypy(cache, *copies)
    found = {line.rsplit(": error:", 1)[0] for line in ended.stdout.splitlines() if ": error:" in line}
    assert len(found) == len(wrong), ended.stdout


def test_a_line_that_became_legal_is_reported(cache: Path, tmp_path: Path) -> None:
    sample = tmp_path / "became_legal.py"
    sample.write_text(
        "from generated.coordinator.operations import admit_event\n\n\n"
        "def answer() -> admit_event.Response:\n"
        '    return admit_event.NoContent(x_coordinator_run_id="")  # type: ignore[call-arg]\n',
        "utf-8",
    )
    ended = mypy(cache, sample)
    assert ended.returncode == 1
    assert f'{sample.name}:5: error: Unused "type: ignore" comment  [unused-ignore]' in ended.stdout


def test_an_ignore_without_a_code_is_not_used() -> None:
    for name in SAMPLES:
        assert not re.search(r"type: ignore(?!\[)", (HERE / name).read_text("utf-8"))
