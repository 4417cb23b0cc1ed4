from __future__ import annotations

import pytest
import typer

from tools.commands import bench


@pytest.mark.parametrize("code", [0, 1])
def test_the_bench_is_told_how_long_to_measure_and_ends_the_command(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    asked: list[dict[str, object]] = []

    def run(**options: object) -> int:
        asked.append(options)
        return code

    monkeypatch.setattr(bench, "run", run)
    with pytest.raises(typer.Exit) as ended:
        bench.bench(rounds=2, seconds=3, machine=True)
    assert ended.value.exit_code == code
    assert asked == [{"rounds": 2, "seconds": 3, "as_json": True}]
