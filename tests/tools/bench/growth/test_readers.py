import resource
from pathlib import Path

import pytest

from tests.support.effort import in_ci_alone
from tools.bench.growth import readers
from tools.bench.growth.readers import Measured, files, measure, part
from tools.bench.load import Round
from tools.bench.servers import BenchError


def round_of(events: int, *, cpu: float | None = 1.0, p99: float = 9.0) -> Round:
    return Round(requests=events, seconds=1.0, p50=4.0, p99=p99, longest=900.0, cpu=cpu, load_cpu=0.5)


def measured(
    count: int, *, rate: int = 1_000_000, live_cpu: float | None = 1.0, peak: int | None = 135_000_000
) -> Measured:
    return Measured(count, [round_of(rate)] * 3, round_of(50_000, cpu=live_cpu), peak)


def test_a_row_tells_what_each_reader_beyond_the_first_takes() -> None:
    rows = part([measured(1), measured(100, peak=145_000_000), measured(2_000, peak=435_000_000)]).rows
    assert list(rows) == ["1 reader", "100 readers", "2,000 readers"]
    assert rows["1 reader"]["each"] is None
    assert rows["2,000 readers"]["each"] == pytest.approx(300_000 / 1_999)
    assert rows["100 readers"]["cpu"] == pytest.approx(1.0)
    assert (rows["100 readers"]["live_cpu"], rows["100 readers"]["live_load_share"]) == (20.0, 0.5)


def test_the_most_readers_are_held_against_fewer_and_their_memory_against_a_bound() -> None:
    assert part([measured(1), measured(100), measured(2_000)]).failures() == []
    many = measured(2_000, rate=400_000, live_cpu=2.0, peak=1_000_000_000)
    assert [line.split(" is ")[0] for line in part([measured(1), measured(100), many]).failures()] == [
        "replayed events/s, 2,000 readers against 100 readers",
        "live processor time an event and reader, 2,000 readers against 100 readers",
        "KB of memory for each of 2,000 readers",
    ]


def test_what_the_system_does_not_tell_is_unknown() -> None:
    row = part([measured(1, peak=None), measured(2, peak=None, live_cpu=None)]).rows["2 readers"]
    assert (row["each"], row["peak"], row["live_cpu"]) == (None, None, None)


def test_so_many_files_may_be_open_until_the_measurement_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 4_096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_to.append(limits))
    with files(1_000):
        assert set_to == []
    with files(2_500):
        assert set_to == [(2_500, 4_096)]
    assert set_to == [(2_500, 4_096), (1_024, 4_096)]


def test_more_files_than_the_system_allows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 2_048))
    with pytest.raises(BenchError, match="2500 files"), files(2_500):
        pass


@in_ci_alone
def test_few_readers_and_more_take_a_history_and_follow_an_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "LIVE_SECONDS", 1)
    found = measure(tmp_path / "readers", lambda _: None, [1, 2, 5])
    assert list(found.rows) == ["1 reader", "2 readers", "5 readers"]
    for row in found.rows.values():
        assert row["rate"]
        assert row["p99"]
        assert row["peak"]
