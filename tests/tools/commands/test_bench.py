from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from tools.bench import apart
from tools.bench.command import Part
from tools.commands import bench
from tools.commands.bench import What


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize(
    ("what", "parts"),
    [
        (What.ALL, ["admit", "execution", "join", "install"]),
        (What.ADMIT, ["admit"]),
        (What.EXECUTION, ["execution"]),
        (What.JOIN, ["join"]),
        (What.INSTALL, ["install"]),
    ],
)
def test_the_bench_is_told_what_and_how_long_to_measure_and_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, what: What, parts: Sequence[Part], code: int
) -> None:
    asked: list[object] = []

    def run(*arguments: object, **options: object) -> int:
        asked.extend((*arguments, options))
        return code

    monkeypatch.setattr(bench, "run", run)
    with pytest.raises(typer.Exit) as ended:
        bench.bench(what, rounds=2, seconds=3, runs=3, machine=True)
    assert ended.value.exit_code == code
    assert asked == [parts, {"rounds": 2, "seconds": 3, "runs": 3, "as_json": True}]


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("what", [What.GROWTH, What.OVERLOAD, What.PROFILE])
def test_what_stands_apart_is_measured_alone(monkeypatch: pytest.MonkeyPatch, what: What, code: int) -> None:
    asked: list[object] = []

    def run(part: str, *, as_json: bool) -> int:
        asked.extend((part, as_json))
        return code

    monkeypatch.setattr(apart, "run", run)
    with pytest.raises(typer.Exit) as ended:
        bench.bench(what, machine=True)
    assert ended.value.exit_code == code
    assert asked == [what.value, True]


def test_a_plot_is_made_again_without_measuring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Path] = []

    def redraw(file: Path) -> int:
        asked.append(file)
        return 1

    monkeypatch.setattr(bench, "redraw", redraw)
    with pytest.raises(typer.Exit) as ended:
        bench.bench(plot=tmp_path / "result.json")
    assert ended.value.exit_code == 1
    assert asked == [tmp_path / "result.json"]
