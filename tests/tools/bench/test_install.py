import ssl
from pathlib import Path

import pytest

from tools.bench import install
from tools.bench.install import Live, Machine, Replay, Spent, percentile, play_rounds
from tools.bench.load import Round
from tools.bench.servers import Program, Server


def machine(folder: Path, name: str) -> Machine:
    program = Program(
        name=name, command=[], environment={}, port=1, folder=folder, database=folder / "peer.db", tls=True
    )
    server = Server(program=program, pid=2**22 + 1, first_answer=0.0)
    return Machine(server, "CODE", ssl.create_default_context(), folder / "install-plan.yaml")


def test_an_install_waits_for_a_file_beside_its_plan(tmp_path: Path) -> None:
    assert machine(tmp_path, "limit").go == tmp_path / "go"


def test_the_jobs_tell_what_they_are_and_what_is_asked_of_them() -> None:
    replay, live = Replay(), Live(3)
    assert "100 readers of 5,000 events" in replay.work
    assert "2,000 lines a second" in live.work
    assert [budget.name for budget in replay.budgets] == ["gatehouse/fastapi", "gatehouse/limit"]
    assert [budget.name for budget in live.budgets] == ["fastapi/gatehouse, p50", "fastapi/gatehouse, p99"]


def test_rounds_are_interleaved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []

    def play(_: Replay, machine: Machine) -> Round:
        played.append(machine.server.program.name)
        return Round(requests=10, seconds=1.0, p50=1.0, p99=2.0, longest=3.0)

    monkeypatch.setattr(install.Replay, "play", play)
    machines = [machine(tmp_path, name) for name in ("gatehouse", "fastapi", "limit")]
    outcome = play_rounds(Replay(), machines, rounds=2, say=lambda _: None)
    assert played == ["gatehouse", "fastapi", "limit"] * 2
    assert {name: len(rounds) for name, rounds in outcome.items()} == {"gatehouse": 2, "fastapi": 2, "limit": 2}


@pytest.mark.parametrize(("percent", "expected"), [(50, 50.0), (99, 99.0), (100, 100.0)])
def test_a_percentile_is_the_least_value_that_so_many_do_not_pass(percent: int, expected: float) -> None:
    assert percentile([float(value) for value in range(1, 101)], percent) == expected
    assert percentile([7.0], percent) == 7.0


def test_the_processor_time_of_a_server_is_not_always_known_and_that_of_the_load_is(tmp_path: Path) -> None:
    cpu, load_cpu = Spent.so_far(machine(tmp_path, "limit").server).since(0.0)
    assert cpu is None
    assert load_cpu >= 0
