import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.table import Table

from tools.bench import apart
from tools.bench.apart import Apart
from tools.bench.servers import BenchError


class Grown:
    """What a part measured, with promises that do not hold."""

    def __init__(self, failures: Sequence[str]) -> None:
        self._failures = list(failures)

    def table(self) -> Table:
        table = Table("runs", "requests/s")
        table.add_row("100,000", "2,500")
        return table

    def document(self) -> dict[str, Any]:
        return {"rates_per_second": {"100000": 2500.0}}

    def failures(self) -> list[str]:
        return self._failures


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stand_in(monkeypatch: pytest.MonkeyPatch, what: Apart, measured: Grown | BenchError) -> list[Path]:
    """Put a module in the place of the one that measures; returns the folders in which it was told to work."""
    folders: list[Path] = []

    def measure(folder: Path, say: Any) -> Grown:
        assert folder.is_dir()
        folders.append(folder)
        say("half of it")
        if isinstance(measured, BenchError):
            raise measured
        return measured

    module = ModuleType(apart.APART[what])
    module.__dict__["measure"] = measure
    monkeypatch.setitem(sys.modules, apart.APART[what], module)
    return folders


@pytest.mark.parametrize("what", ["growth", "overload", "profile"])
def test_a_part_is_measured_in_a_folder_that_goes_and_kept_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: Apart
) -> None:
    folders = stand_in(monkeypatch, what, Grown([]))
    assert apart.run(what) == 0
    told = capsys.readouterr()
    [kept] = Path("bench-results").iterdir()
    assert kept.match(f"{what}-*.json")
    assert str(kept) in told.out
    assert "2,500" in told.out
    assert "half of it" in told.err
    assert not folders[0].exists()


def test_a_promise_that_is_not_held_is_told_and_ends_in_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, "growth", Grown(["it grows"]))
    assert apart.run("growth") == 1
    assert "not held: it grows" in capsys.readouterr().out


def test_a_machine_reads_what_is_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in(monkeypatch, "growth", Grown(["it grows"]))
    assert apart.run("growth", as_json=True) == 1
    [kept] = Path("bench-results").iterdir()
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(kept.read_text())
    assert document["rates_per_second"] == {"100000": 2500.0}
    assert document["failures"] == ["it grows"]
    assert document["machine"]["cores"] > 0


def test_what_cannot_be_measured_says_why_and_ends_in_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, "overload", BenchError("there is no wrk"))
    assert apart.run("overload") == 1
    assert "there is no wrk" in capsys.readouterr().err
    assert list(Path("bench-results").iterdir()) == []
