from pathlib import Path

import pytest

from tests.support.effort import in_ci_alone
from tools.bench.growth.replays import Replayed, Visit, fill, part, play_rounds


def visit(whole: float, *, first: float = 3.0, cpu: float | None = 0.01, peak: int | None = 135_000_000) -> Visit:
    replayed = Replayed(first=first, whole=whole, cpu=cpu, load_cpu=whole / 1e4)
    again = Replayed(first=1.0, whole=whole / 10, cpu=cpu, load_cpu=0.0)
    return Visit(replayed, [again, again], 1.0, peak)


def test_a_row_tells_first_replays_from_those_of_what_is_in_memory() -> None:
    row = part({100: [visit(5)], 10_000: [visit(50), visit(40), visit(30)], 1_000_000: [visit(4_000)]}).rows
    middle = row["10,000 events"]
    assert (middle["first"], middle["whole"], middle["rate"], middle["again"]) == (3.0, 40, 250_000, 2_500_000)
    assert middle["load_share"] == pytest.approx(0.1)
    assert middle["cpu"] == pytest.approx(1.0)
    assert middle["peak"] == 135.0


def test_the_longest_history_is_held_against_the_others() -> None:
    good = {100: [visit(5)], 10_000: [visit(40)], 1_000_000: [visit(4_000, peak=149_000_000)]}
    assert part(good).failures() == []
    bad = good | {1_000_000: [visit(9_000, first=200.0, peak=500_000_000)]}
    assert [line.split(" is ")[0] for line in part(bad).failures()] == [
        "first replay's events/s, 1,000,000 events against 10,000 events",
        "ms to the first event, 1,000,000 events more than 100 events",
        "peak MB, 1,000,000 events more than 100 events",
    ]


def test_what_the_system_does_not_tell_is_unknown() -> None:
    found = {count: [visit(5, cpu=None, peak=None)] for count in (1, 2, 3)}
    row = part(found).rows["3 events"]
    assert (row["cpu"], row["peak"]) == (None, None)


@in_ci_alone
def test_histories_of_each_length_are_replayed_from_a_server_just_started(tmp_path: Path) -> None:
    said: list[str] = []
    found = play_rounds(fill(tmp_path, [100, 300, 3_000], lambda _: None), said.append, rounds=1)
    assert len(said) == 3
    assert list(found.rows) == ["100 events", "300 events", "3,000 events"]
    for row in found.rows.values():
        assert row["rate"]
        assert row["again"]
        assert row["peak"]
