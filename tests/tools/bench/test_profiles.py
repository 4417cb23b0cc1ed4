import io
import os
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.support.effort import in_ci_alone
from tests.support.programs import needs
from tests.tools.bench.test_folded import LOG, MAIN, WRITER
from tests.tools.bench.test_report import rounds
from tools.bench import kept, load, profiles, spy
from tools.bench.admission import Admission, peer
from tools.bench.install import Machine, Replay
from tools.bench.profiles import Profiles, Subject, by_readers, by_wrk, measure, profile, summed_up, under_load
from tools.bench.servers import BenchError, Server
from tools.bench.spy import py_spy

RECORDED = Path(__file__).with_name("recorded.txt")
SPENT = {MAIN: 3.0, WRITER: 1.0, LOG: 0.0}


def subject(folder: Path, load: Any = lambda _: None) -> Subject:
    """An operation of this process, whose load is what the test wants it to be."""
    server = Server(program=peer("fastapi", folder / "fastapi"), pid=os.getpid(), first_answer=0.0)
    return Subject(name="admit", work="admitEvent", server=server, load=load)


@pytest.fixture
def summed(tmp_path: Path) -> Profiles:
    one = summed_up(subject(tmp_path), RECORDED.read_text(), 5.0, SPENT)
    return Profiles(date="2026-04-15T12:00:00Z", folder=Path("bench-results/profiles-x"), profiles=[one])


def test_the_table_has_the_parts_and_the_functions_that_take_the_most(summed: Profiles) -> None:
    output = io.StringIO()
    Console(file=output, width=120).print(summed.table())
    text = output.getvalue()
    assert "admitEvent; 0.80 processors for 5 s" in text
    shares = {line.split("│")[2].strip(): line.split("│")[1].strip() for line in text.splitlines() if "%" in line}
    assert shares["storage, the process that commits"] == "25.0%"
    assert shares["_sqlite.<locals>._begin (storage/connections.py:94)"] == "2.3%"
    assert shares["Writer._serve (storage/writer.py:133)"] == "25.0%"
    assert "bench-results/profiles-x" in text


def test_the_document_has_what_the_tables_show(summed: Profiles) -> None:
    document = summed.document()
    [one] = document["profiles"]
    assert (one["seconds"], one["cpu_seconds"]) == (5.0, 4.0)
    assert sum(one["part_shares"].values()) == pytest.approx(1.0)
    assert len(one["inclusive_shares"]) == profiles.LISTED
    assert max(one["own_shares"], key=one["own_shares"].__getitem__).startswith("Runner.run")
    assert summed.failures() == []


def test_a_server_that_did_nothing_has_no_profile(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="never seen at work"):
        summed_up(subject(tmp_path), RECORDED.read_text(), 5.0, {})


def test_an_operation_is_recorded_under_load_as_a_picture_and_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    recorded: list[tuple[str, str]] = []

    def record(_: int, _seconds: int, form: str, file: Path) -> None:
        recorded.append((form, file.name))
        file.write_text(RECORDED.read_text())

    monkeypatch.setattr(spy, "record", record)
    totals = iter([{MAIN: 1.0}, {MAIN: 4.0}])
    monkeypatch.setattr(profiles, "thread_seconds", lambda _: next(totals))
    one = profile(subject(tmp_path, asked.append), tmp_path)
    assert recorded == [("flamegraph", "admit.svg"), ("raw", "admit.txt")]
    assert asked == [profiles.WARM_UP_SECONDS, *[profiles.RECORD_SECONDS + profiles.MARGIN_SECONDS] * 2]
    assert one.cpu == 3.0


def test_a_load_that_fails_spoils_the_profile(tmp_path: Path) -> None:
    def fail(_: int) -> None:
        raise BenchError("there were other answers than 204")

    with pytest.raises(BenchError, match="other answers"), under_load(subject(tmp_path, fail)):
        pass


def test_wrk_is_told_what_rate_it_has_come_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected: list[float] = []

    def play(*_: Any, expected_rate: float, **_more: Any) -> Any:
        expected.append(expected_rate)
        return rounds(2500)[0]

    monkeypatch.setattr(profiles, "play", play)
    loaded = by_wrk(Admission(tmp_path), subject(tmp_path).server)
    loaded.load(2)
    loaded.load(8)
    assert expected == [profiles.WARM_UP_RATE, 2500.0]


def test_readers_replay_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Machine] = []
    moments = iter([0.0, 0.0, 1.9, 2.0])
    monkeypatch.setattr(Replay, "play", lambda _, machine: played.append(machine))
    trust = ssl.create_default_context()
    machine = Machine(subject(tmp_path).server, "7F3K-9QPX", trust, tmp_path / "plan.yaml")
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: next(moments))
        by_readers(Replay(), machine).load(2)
    assert played == [machine, machine]


@pytest.mark.parametrize("missing", ["wrk", "py_spy"])
def test_without_its_programs_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def absent() -> str:
        raise BenchError(f"{missing} is not installed")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(load, "wrk", lambda: "wrk")
    monkeypatch.setattr(load if missing == "wrk" else spy, missing, absent)
    with pytest.raises(BenchError, match=f"{missing} is not installed"):
        measure(tmp_path, lambda _: None)
    assert not kept.RESULTS.exists()


@in_ci_alone
@needs("wrk")
@pytest.mark.timeout(300)
def test_every_operation_has_a_flame_graph_and_its_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        py_spy()
    except BenchError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(profiles, "RECORD_SECONDS", 1)
    (tmp_path / "work").mkdir()
    measured = measure(tmp_path / "work", lambda _: None)
    names = ["admit", "join-500-http", "join-1-http", "install-replay"]
    assert [each.name for each in measured.profiles] == names
    kept_files = sorted(file.name for file in measured.folder.iterdir())
    assert kept_files == sorted(
        f"{name}{of}.{suffix}" for name in names for of in ("", "-commit") for suffix in ("svg", "txt")
    )
    for each in measured.profiles:
        assert sum(each.parts.values()) == pytest.approx(1.0)
        assert any("Endpoint" in function for function in each.inclusive)
