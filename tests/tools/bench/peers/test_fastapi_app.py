from collections.abc import Iterator

import pytest

from tests.tools.bench.inputs import INPUTS, last_answer, runs_of_one_event_at_once, table
from tools.bench.command import peer
from tools.bench.servers import Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(peer("fastapi", tmp_path_factory.mktemp("bench") / "fastapi")) as server:
        yield server


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_is_answered_as_gatehouse_has_to_answer_it(server: Server, name: str) -> None:
    answer = last_answer(server, name)
    assert (answer.status, answer.code) == INPUTS[name][1:]


def test_deliveries_of_one_event_at_once_give_one_run(server: Server) -> None:
    before = len(table(server, "runs"))
    answers = runs_of_one_event_at_once(server, 20)
    assert {answer.status for answer in answers} == {204}
    assert len({answer.run_id for answer in answers}) == 1
    assert len(table(server, "runs")) == before + 1


def test_every_run_has_its_identity_outbox_and_audit_rows(server: Server) -> None:
    last_answer(server, "a new event")
    runs = {row["run_id"] for row in table(server, "runs")}
    assert {row["run_id"] for row in table(server, "admissions")} == runs
    assert {row["run_id"] for row in table(server, "outbox")} == runs
    assert {row["subject"].replace("-", "") for row in table(server, "audit")} == runs


def test_the_audit_rows_are_one_chain(server: Server) -> None:
    last_answer(server, "a new event")
    rows, [head] = table(server, "audit"), table(server, "audit_heads")
    assert [row["prev_hash"] for row in rows] == ["0" * 64, *(row["hash"] for row in rows[:-1])]
    assert (head["seq"], head["hash"]) == (len(rows), rows[-1]["hash"])
