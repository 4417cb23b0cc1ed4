from __future__ import annotations

from collections.abc import Sequence

import pytest
import typer

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
        bench.bench(what, rounds=2, seconds=3, machine=True)
    assert ended.value.exit_code == code
    assert asked == [parts, {"rounds": 2, "seconds": 3, "as_json": True}]
