from pathlib import Path

import pytest

from tests.support.effort import in_ci_alone
from tools.bench.growth.joins import Measured, measure, part


def measured(lines: int, kept: int, delay: float, *, cpu: float | None = 0.004, peak: int = 130_000_000) -> Measured:
    return Measured(lines, kept, [delay, delay, delay, 2 * delay], cpu, peak)


def test_a_row_has_the_rate_that_the_delays_come_to() -> None:
    row = part([measured(500, 0, 1.0), measured(500, 2_000, 2.0)]).rows["500 lines to a join with 2,000"]
    assert row["rate"] == pytest.approx(400)
    assert (row["p50"], row["p99"], row["cpu"], row["peak"]) == (2.0, 4.0, 1_000.0, 130.0)


def test_each_size_of_a_report_is_held_against_itself() -> None:
    found = [
        *(measured(500, 0, 2.0), measured(500, 2_000, 2.2)),
        *(measured(1, 0, 1.0), measured(1, 2_000, 1.8, cpu=None, peak=150_000_000)),
    ]
    assert list(part(found).rows)[2:] == ["1 line to a join with 0", "1 line to a join with 2,000"]
    assert [line.split(" is ")[0] for line in part(found).failures()] == [
        "p50 of 1, with 2,000 kept against 0",
        "peak MB of 1, more with 2,000 kept against 0",
    ]


@in_ci_alone
def test_reports_go_to_a_join_without_lines_and_to_one_with_all_that_are_kept(tmp_path: Path) -> None:
    found = measure(tmp_path / "joins", lambda _: None, reports=3)
    assert [(row["lines"], row["kept"]) for row in found.rows.values()] == [(500, 0), (500, 2_000), (1, 0), (1, 2_000)]
    assert all(row["rate"] for row in found.rows.values())
