import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tools.bench.test_report import GOOD, result, rounds, streamed
from tools.bench.document import document
from tools.bench.execution import OFF, ON
from tools.bench.plot import draw, groups
from tools.bench.report import Played
from tools.bench.servers import BenchError

GOOD_DOCUMENT = document([GOOD])


def test_bars_are_ratios_to_the_median_of_fastapi_with_the_spread_of_rounds() -> None:
    [group] = groups(GOOD_DOCUMENT)
    assert group.title == "admitEvent"
    assert [(bar.server, bar.value, bar.least, bar.greatest) for bar in group.bars] == [
        ("gatehouse", 15.0, 5.0, 20.0),
        ("fastapi", 1.0, 0.5, 1.25),
        ("limit", 20.0, 10.0, 25.0),
    ]
    assert [bar.told for bar in group.bars] == ["3,000 requests/s", "200 requests/s", "4,000 requests/s"]


def test_a_floor_is_where_the_bar_of_gatehouse_has_to_reach() -> None:
    [group] = groups(GOOD_DOCUMENT)
    # Seven times FastAPI, and half of the limit, which is twenty times FastAPI.
    assert group.floors == [7.0, 10.0]


def test_a_job_of_several_runs_is_one_group_over_all_their_rounds() -> None:
    [group] = groups(document([GOOD, result(rounds(2000, 2000, 9000))]))
    assert (group.bars[0].least, group.bars[0].value, group.bars[0].greatest) == (5.0, 12.5, 45.0)


def test_of_delays_the_shorter_is_the_longer_bar() -> None:
    half, most = groups(document([streamed((20.0, 44.0))]))
    assert (half.title, most.title) == ("w: median delay", "w: 99th percentile of the delay")
    assert [(bar.server, bar.value, bar.told) for bar in half.bars] == [
        ("gatehouse", 2.0, "10.0 ms"),
        ("fastapi", 1.0, "20.0 ms"),
    ]
    assert most.floors == [1.0]


def test_what_fastapi_was_not_given_has_no_bars_and_alone_no_plot(tmp_path: Path) -> None:
    played = Played(name="execution", work="w", note="n", budgets=(), rounds={ON: rounds(80), OFF: rounds(100)})
    alone = document([replace(GOOD, played=[played])])
    assert groups(alone) == []
    pytest.importorskip("matplotlib")
    with pytest.raises(BenchError, match="nothing was measured beside FastAPI"):
        draw(alone, tmp_path / "plot.png")


@pytest.mark.parametrize("results", [[GOOD], [streamed((2.0, 3.0))]])
def test_a_picture_is_made_of_what_is_kept(tmp_path: Path, results: Any) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "plot.png"
    draw(document(results), file)
    picture = file.read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20], "big") > 1_000


def test_without_matplotlib_one_line_says_that_there_is_no_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(BenchError, match=r"no plot: matplotlib is not installed \(pip install matplotlib\)"):
        draw(GOOD_DOCUMENT, tmp_path / "plot.png")
