import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.effort import in_ci_alone
from tests.support.programs import needs
from tests.tools.bench.test_report import GOOD, result, rounds
from tools.bench import command, plot
from tools.bench.admission import Admission, peer
from tools.bench.command import measure, play_rounds, redraw, run
from tools.bench.execution import OFF, ON
from tools.bench.load import Job
from tools.bench.report import Result
from tools.bench.servers import BenchError, Server

needs_wrk = needs("wrk")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_rounds_are_interleaved_after_a_warm_up_of_each_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[tuple[str, int]] = []

    def play(_: Job, server: Server, *, seconds: int, **_more: Any) -> Any:
        played.append((server.program.name, seconds))
        return rounds(100)[0]

    monkeypatch.setattr(command, "play", play)
    programs = [peer(name, tmp_path / name) for name in ("fastapi", "limit")]
    servers = [Server(program=program, pid=0, first_answer=0.0) for program in programs]
    outcome = play_rounds(Admission(tmp_path), servers, rounds=2, seconds=3, say=lambda _: None)
    warm_up = command.WARM_UP_SECONDS
    assert played == [("fastapi", warm_up), ("limit", warm_up), *[("fastapi", 3), ("limit", 3)] * 2]
    assert {name: len(each) for name, each in outcome.rounds.items()} == {"fastapi": 2, "limit": 2}


def test_a_round_that_would_outlive_its_deliveries_is_refused() -> None:
    with pytest.raises(BenchError, match="good for thirty"):
        measure(["admit"], rounds=1, seconds=11, say=lambda _: None)


BAD = result(rounds(1, 1, 1))


@pytest.mark.parametrize(("measured", "code"), [(GOOD, 0), (BAD, 1)])
def test_the_result_is_kept_as_json_and_a_missed_floor_ends_in_1(
    here: Path, monkeypatch: pytest.MonkeyPatch, measured: Result, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "measure", lambda *_, **__: measured)
    assert run(as_json=True) == code
    [kept] = (here / "bench-results").glob("*.json")
    assert json.loads(kept.read_text()) == json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("here")
def test_over_several_runs_a_floor_that_one_of_them_missed_is_not_held(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = iter([GOOD, BAD, GOOD])
    monkeypatch.setattr(command, "measure", lambda *_, **__: next(results))
    assert run(runs=3) == 1
    assert "floors held in 2 runs of 3" in capsys.readouterr().out


def test_runs_that_are_over_are_kept_where_the_next_cannot_be_measured(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = iter([GOOD])

    def measured(*_: Any, **__: Any) -> Result:
        for each in results:
            return each
        raise BenchError("the disk is full")

    monkeypatch.setattr(command, "measure", measured)
    assert run(runs=2) == 1
    [kept] = (here / "bench-results").iterdir()
    assert len(json.loads(kept.read_text())["runs"]) == 1


def test_a_plot_lies_beside_the_document_that_it_is_made_of(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[tuple[Any, Path]] = []
    monkeypatch.setattr(plot, "draw", lambda document, file: drawn.append((document, file)))
    file = here / "result.json"
    file.write_text('{"runs": []}')
    assert redraw(file) == 0
    assert drawn == [({"runs": []}, here / "result.png")]
    assert "result.png" in capsys.readouterr().err.replace("\n", "")


def test_a_bench_without_a_plot_says_so_and_has_measured_all_the_same(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def draw(*_: Any) -> None:
        raise BenchError("no plot: matplotlib is not installed")

    monkeypatch.setattr(plot, "draw", draw)
    monkeypatch.setattr(command, "measure", lambda *_, **__: GOOD)
    assert run() == 0
    assert "no plot: matplotlib is not installed" in capsys.readouterr().err
    [kept] = (here / "bench-results").iterdir()
    assert redraw(kept) == 1


def test_a_bench_that_cannot_measure_says_why_and_ends_in_1(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(here))
    assert run() == 1
    assert "apt-get install wrk" in capsys.readouterr().err


@in_ci_alone
@needs_wrk
@pytest.mark.timeout(300)
def test_the_whole_bench_plays_every_job_and_measures_start_and_memory(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "WAVE_SECONDS", 1)
    monkeypatch.setattr(command, "MEMORY_EVENTS", 1)
    # The slowest peer has to come to its first answer in a round.
    measured = measure(command.PARTS, rounds=1, seconds=2, say=lambda _: None)
    assert [each.name for each in measured.played] == [
        *(
            "admit",
            "execution",
            "join-500-tls",
            "join-1-tls",
            "join-500-http",
            "join-1-http",
            "install-replay",
            "install-live",
        )
    ]
    for played in measured.played:
        servers = [OFF, ON] if played.name == "execution" else ["gatehouse", "fastapi", "limit"]
        assert {name: len(each) for name, each in played.rounds.items()} == dict.fromkeys(servers, 1)
    carried = {name: [each.carried for each in rounds] for name, rounds in measured.played[1].rounds.items()}
    assert carried[OFF] == [None]
    assert all(each is not None and each.during + each.after > 0 for each in carried[ON])
    assert len(measured.first_answer) == 2
    assert measured.memory is not None
    assert measured.memory.events >= 1
    assert list((here / "bench-results").iterdir()) == []
