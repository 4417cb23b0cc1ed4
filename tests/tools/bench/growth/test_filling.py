import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from storage.verification import verify
from tests.tools.bench.inputs import Delivery, table
from tools.bench import admission, programs
from tools.bench.growth import filling
from tools.bench.growth.filling import fill_events, fill_runs
from tools.bench.servers import Program, Server, serving
from tools.state import StateFolder


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a folder that was filled after it had admitted one event."""
    program = admission.gatehouse(tmp_path_factory.mktemp("growth") / "state")
    with serving(program) as server:
        send(server)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filling, "LIVE", 20)
        patch.setattr(filling, "_CHUNK", 7)
        fill_runs(program, 100)
    with serving(program) as server:
        yield server


def send(server: Server) -> None:
    answer = Delivery().send(server.program.port, server.program.key_file.read_bytes())
    assert (answer.status, answer.code) == (204, "")


def test_there_are_as_many_runs_as_were_asked_for_and_the_last_of_them_are_live(filled: Server) -> None:
    runs = table(filled, "runs")[:100]
    made = runs[1:]
    assert [run["ended_at"] is None for run in made] == [False] * 79 + [True] * 20
    assert sorted(run["run_id"] for run in made) == [run["run_id"] for run in made]
    assert len({run["input"] for run in runs}) == 100
    assert {run["binding_digest"] for run in made} == {runs[0]["binding_digest"]}


def test_each_run_has_its_admission_and_the_live_ones_wait_in_the_outbox(filled: Server) -> None:
    runs, admissions, outbox = (table(filled, name) for name in ("runs", "admissions", "outbox"))
    assert {each["run_id"] for each in admissions} == {run["run_id"] for run in runs}
    assert {each["run_id"] for each in outbox} == {run["run_id"] for run in runs if run["ended_at"] is None}


def test_the_server_goes_on_where_the_filling_ended(filled: Server) -> None:
    send(filled)
    state = StateFolder(filled.program.folder)
    found = verify(f"sqlite:///{state.database}", node="local", audit_file=state.audit_file)
    assert list(found.faults) == []
    assert found.rows == found.lines
    assert len(table(filled, "admissions")) == 101
    assert list(state.path.glob("audit.jsonl.contradicts*")) == []


@pytest.fixture
def installer(tmp_path: Path) -> Program:
    program = programs.gatehouse(tmp_path / "state", "installer", tls=True)
    with serving(program):
        pass
    return program


def test_an_install_with_so_many_events_has_succeeded(installer: Program) -> None:
    fill_events(installer, 1_203)
    with closing(sqlite3.connect(installer.database)) as connection:
        events = connection.execute("SELECT id, type FROM install_events ORDER BY id").fetchall()
        [attempt] = connection.execute("SELECT attempt, state, verdict_id FROM install_attempts").fetchall()
    assert [event_id for event_id, _ in events] == list(range(1, 1_204))
    assert [kind for _, kind in events] == ["step", *["log"] * 1_200, "step", "verdict"]
    assert attempt == (1, "succeeded", 1_203)
