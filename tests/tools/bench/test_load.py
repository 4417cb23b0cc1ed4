import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import needs
from tools.bench import load
from tools.bench.command import peer
from tools.bench.deliveries import Prepared, prepare
from tools.bench.load import judge, play, rows
from tools.bench.servers import TABLES, BenchError, Server, serving

GOOD = {
    "requests": 10_000,
    "microseconds": 5_000_000,
    "p50": 7_000,
    "p99": 21_000,
    "longest": 40_000,
    "unexpected": 0,
    "status_seen": 0,
    "broken": 0,
    "exhausted": 0,
}
needs_wrk = needs("wrk")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(peer("limit", tmp_path / "limit")) as server:
        yield server


def test_a_round_has_its_rate_in_seconds_and_its_latencies_in_milliseconds() -> None:
    outcome = judge("limit", json.dumps(GOOD))
    assert (outcome.rate, outcome.p50, outcome.p99, outcome.longest) == (2_000.0, 7.0, 21.0, 40.0)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"unexpected": 3, "status_seen": 401}, "3 answers that are not 204, 401 the last"),
        ({"broken": 2}, "broke or let wait 2"),
        ({"exhausted": 1}, "ran out"),
        ({"requests": 0}, "no answer"),
    ],
)
def test_a_round_that_proves_nothing_is_refused(fault: dict[str, int], words: str) -> None:
    with pytest.raises(BenchError, match=words):
        judge("limit", json.dumps(GOOD | fault))


def test_a_missing_wrk_is_told_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchError, match="apt-get install wrk"):
        load.wrk()


@needs_wrk
def test_a_round_adds_the_rows_that_it_was_answered_for(server: Server, tmp_path: Path) -> None:
    outcome = play(server, seconds=1, expected_rate=6_000, scratch=tmp_path)
    gained = rows(server.program.database)
    assert set(gained) == set(TABLES)
    assert all(outcome.requests <= each <= outcome.requests + load.CONNECTIONS for each in gained.values())


@needs_wrk
def test_deliveries_that_run_out_spoil_the_round(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "LEAST_RATE", 20)
    with pytest.raises(BenchError, match="ran out"):
        play(server, seconds=1, expected_rate=1, scratch=tmp_path)


@needs_wrk
def test_an_answer_other_than_204_spoils_the_round(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def signed_by_another(path: Path, count: int, _: bytes, host: str) -> Prepared:
        return prepare(path, count, b"another key of thirty-two bytes.", host)

    monkeypatch.setattr(load, "prepare", signed_by_another)
    with pytest.raises(BenchError, match="not 204, 401 the last"):
        play(server, seconds=1, expected_rate=6_000, scratch=tmp_path)


@needs_wrk
def test_rows_that_are_missing_spoil_the_round(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "rows", lambda _: dict.fromkeys(TABLES, 0))
    with pytest.raises(BenchError, match="gained 0 rows"):
        play(server, seconds=1, expected_rate=6_000, scratch=tmp_path)
