import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.effort import in_ci_alone
from tests.support.programs import needs
from tests.tools.bench.inputs import INPUTS, last_answer, runs_of_one_event_at_once, table
from tests.tools.bench.test_report import GOOD, result, rounds
from tools.bench import command
from tools.bench.command import gatehouse, measure, peer, play_rounds, run
from tools.bench.report import Result
from tools.bench.servers import TABLES, BenchError, Server, serving

needs_wrk = needs("wrk")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(gatehouse(tmp_path_factory.mktemp("bench") / "gatehouse")) as server:
        yield server


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", INPUTS)
def test_gatehouse_answers_each_input_as_its_peers_do(server: Server, name: str) -> None:
    answer = last_answer(server, name)
    assert (answer.status, answer.code) == INPUTS[name][1:]


def test_gatehouse_makes_one_run_of_deliveries_at_once(server: Server) -> None:
    before = len(table(server, "runs"))
    assert len({answer.run_id for answer in runs_of_one_event_at_once(server, 20)}) == 1
    assert len(table(server, "runs")) == before + 1


@pytest.mark.parametrize("name", ["fastapi", "limit"])
def test_a_peer_fills_the_columns_that_gatehouse_fills(server: Server, tmp_path: Path, name: str) -> None:
    with serving(peer(name, tmp_path / name)) as other:
        for each in (server, other):
            last_answer(each, "a new event")
        for rows in TABLES:
            ours, theirs = (table(each, rows)[-1] for each in (server, other))
            assert list(ours) == list(theirs)
            assert [value is None for value in ours.values()] == [value is None for value in theirs.values()]


def test_rounds_are_interleaved_after_a_warm_up_of_each_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[tuple[str, int]] = []

    def play(server: Server, *, seconds: int, **_: Any) -> Any:
        played.append((server.program.name, seconds))
        return rounds(100)[0]

    monkeypatch.setattr(command, "play", play)
    programs = [peer(name, tmp_path / name) for name in ("fastapi", "limit")]
    outcome = play_rounds(programs, rounds=2, seconds=3, scratch=tmp_path, say=lambda _: None)
    warm_up = command.WARM_UP_SECONDS
    assert played == [("fastapi", warm_up), ("limit", warm_up), *[("fastapi", 3), ("limit", 3)] * 2]
    assert {name: len(each) for name, each in outcome.items()} == {"fastapi": 2, "limit": 2}


def test_a_round_that_would_outlive_its_deliveries_is_refused() -> None:
    with pytest.raises(BenchError, match="good for thirty"):
        measure(rounds=1, seconds=11, say=lambda _: None)


@pytest.mark.parametrize(("measured", "code"), [(GOOD, 0), (result(rounds(1, 1, 1)), 1)])
def test_the_result_is_kept_as_json_and_a_missed_floor_ends_in_1(
    here: Path, monkeypatch: pytest.MonkeyPatch, measured: Result, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "bench-results").mkdir()
    monkeypatch.setattr(command, "measure", lambda **_: measured)
    assert run(as_json=True) == code
    [kept] = (here / "bench-results").iterdir()
    assert json.loads(kept.read_text()) == json.loads(capsys.readouterr().out)


def test_a_bench_that_cannot_measure_says_why_and_ends_in_1(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(here))
    assert run() == 1
    assert "apt-get install wrk" in capsys.readouterr().err


@in_ci_alone
@needs_wrk
def test_the_whole_bench_measures_three_servers_start_and_memory(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WARM_UP_SECONDS", 1)
    monkeypatch.setattr(command, "WAVE_SECONDS", 1)
    monkeypatch.setattr(command, "MEMORY_EVENTS", 1)
    measured = measure(rounds=1, seconds=1, say=lambda _: None)
    assert {name: len(each) for name, each in measured.rounds.items()} == {"gatehouse": 1, "fastapi": 1, "limit": 1}
    assert len(measured.first_answer) == 2
    assert measured.memory is not None
    assert measured.memory.events >= 1
    assert list((here / "bench-results").iterdir()) == []
