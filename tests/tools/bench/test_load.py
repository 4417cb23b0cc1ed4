import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import needs
from tools.bench import admission, load
from tools.bench.admission import TABLES, Admission, peer
from tools.bench.deliveries import Prepared, prepare
from tools.bench.load import counts, judge, play, settled
from tools.bench.servers import BenchError, Server, serving

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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(peer("limit", tmp_path_factory.mktemp("bench") / "limit")) as server:
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
    job = Admission(tmp_path)
    before = counts(server.program.database, job.counts())
    outcome = play(job, server, seconds=1, expected_rate=6_000)
    after = counts(server.program.database, job.counts())
    assert set(after) == set(TABLES)
    for table in TABLES:
        assert outcome.requests <= after[table] - before[table] <= outcome.requests + load.CONNECTIONS
    assert 0 < outcome.load_cpu < 1


@needs_wrk
def test_deliveries_that_run_out_spoil_the_round(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LEAST_RATE", 20)
    with pytest.raises(BenchError, match="ran out"):
        play(Admission(tmp_path), server, seconds=1, expected_rate=1)


@needs_wrk
def test_an_answer_other_than_204_spoils_the_round(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def signed_by_another(path: Path, count: int, _: bytes, host: str) -> Prepared:
        return prepare(path, count, b"another key of thirty-two bytes.", host)

    monkeypatch.setattr(admission, "prepare", signed_by_another)
    with pytest.raises(BenchError, match="not 204, 401 the last"):
        play(Admission(tmp_path), server, seconds=1, expected_rate=6_000)


@needs_wrk
def test_rows_that_are_missing_spoil_the_round(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "counts", lambda *_: dict.fromkeys(TABLES, 0))
    with pytest.raises(BenchError, match="gained what 0 requests give"):
        play(Admission(tmp_path), server, seconds=1, expected_rate=6_000)


def test_what_a_server_is_still_at_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    growing = iter([1, 2, 2])
    monkeypatch.setattr(load, "counts", lambda *_: {"rows": next(growing)})
    assert settled(Path("any"), {}) == {"rows": 2}


def test_a_server_that_never_comes_to_rest_spoils_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    growing = itertools.count()
    monkeypatch.setattr(load, "counts", lambda *_: {"rows": next(growing)})
    monkeypatch.setattr(load, "SETTLE_SECONDS", 0.3)
    with pytest.raises(BenchError, match="grows although"):
        settled(Path("any"), {})
