import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.effort import in_ci_alone
from tests.support.programs import needs
from tools.bench.growth.admission import Measured, Moved, Played, Stored, fill, part, play_rounds
from tools.bench.load import Round


def played(rate: float, *, read: float | None = 10.0) -> Played:
    outcome = Round(requests=round(rate), seconds=1.0, p50=8.0, p99=20.0, longest=30.0, cpu=rate * 250e-6, load_cpu=0.1)
    return Played(outcome, read, 40.0)


def measured(stored: int, rate: float, *, start: float = 1.0, peak: int | None = 140_000_000) -> Measured:
    return Measured(stored, [played(rate - 100), played(rate), played(rate + 300)], start, peak)


def test_a_row_has_the_medians_and_the_spread_of_its_rounds() -> None:
    row = part([measured(0, 4_000), measured(2_000_000, 3_000)]).rows["2,000,000 runs"]
    assert (row["rate"], row["least"], row["greatest"]) == (3_000, 2_900, 3_300)
    assert (row["p50"], row["p99"], row["read"], row["written"], row["peak"]) == (8.0, 20.0, 10.0, 40.0, 140.0)
    assert row["cpu"] == pytest.approx(250)


def test_all_promises_hold_where_nothing_grows() -> None:
    assert part([measured(0, 4_000), measured(100, 3_900), measured(2_000_000, 3_000)]).failures() == []


def test_the_most_runs_are_held_against_the_fewest() -> None:
    slow = measured(2_000_000, 2_000, start=9.0, peak=500_000_000)
    failures = part([measured(0, 4_000), measured(100, 3_900), slow]).failures()
    assert [line.split(" is ")[0] for line in failures] == [
        "rate with 2,000,000 runs, against 0",
        "peak memory with 2,000,000 runs, against 0",
        "seconds to the first answer, more with 2,000,000 runs, against 0",
    ]


def test_what_the_system_does_not_tell_is_unknown() -> None:
    found = [Measured(count, [played(4_000, read=None)], 1.0, None) for count in (0, 10)]
    row = part(found).rows["10 runs"]
    assert (row["read"], row["peak"]) == (None, None)
    assert part(found).failures() == []


def test_what_a_process_and_its_children_write_is_counted() -> None:
    before = Moved.so_far(os.getpid())
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"x" * 5_000)
        child.stdin.flush()
        assert child.stdout.read(5_000) == b"x" * 5_000
        after = Moved.so_far(os.getpid())
    assert before is not None
    assert after is not None
    assert after.written - before.written >= 10_000
    assert Moved.so_far(2**22 + 1) is None


def test_what_admissions_leave_is_told_by_the_last_number_of_each_table(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "some.db")) as connection:
        for name in ("admissions", "runs", "outbox", "audit_heads"):
            connection.execute(f"CREATE TABLE {name} (seq INTEGER)")
        queries = Stored(tmp_path).counts().values()
        assert [connection.execute(query).fetchone() for query in queries] == [(0,)] * 4
        for name in ("admissions", "runs", "outbox", "audit_heads"):
            connection.execute(f"INSERT INTO {name} (rowid, seq) VALUES (7, 7)")  # noqa: S608 - names in a test
        assert [connection.execute(query).fetchone() for query in queries] == [(7,)] * 4


@in_ci_alone
@needs("wrk")
def test_servers_with_no_run_and_with_many_are_measured_in_turns(tmp_path: Path) -> None:
    said: list[str] = []
    made = fill(tmp_path, [0, 20_000], lambda _: None)
    found = play_rounds(made, tmp_path, said.append, rounds=2, seconds=1)
    assert [line.split(": ")[1].split(" stored")[0] for line in said] == ["0 runs", "20,000 runs"] * 2
    for row in found.rows.values():
        assert row["rate"]
        assert row["written"]
        assert row["peak"]
