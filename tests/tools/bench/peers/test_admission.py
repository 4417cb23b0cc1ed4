import contextlib
from collections.abc import Iterator

import pytest

from tests.tools.bench.inputs import INPUTS, last_answer, runs_of_one_event_at_once, table
from tools.bench.admission import TABLES, all_programs
from tools.bench.servers import Server, serving


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Gatehouse and its peers; what they stand for is only worth comparing where they answer alike."""
    with contextlib.ExitStack() as stack:
        programs = all_programs(tmp_path_factory.mktemp("bench"))
        yield {program.name: stack.enter_context(serving(program)) for program in programs}


@pytest.fixture(params=["gatehouse", "fastapi", "limit"])
def server(request: pytest.FixtureRequest, servers: dict[str, Server]) -> Server:
    return servers[request.param]


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_is_answered_alike(server: Server, name: str) -> None:
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
    admitted = {row["subject"] for row in table(server, "audit") if row["action"] == "run.admitted"}
    assert {subject.replace("-", "") for subject in admitted} == runs


def test_the_audit_rows_are_one_chain(server: Server) -> None:
    last_answer(server, "a new event")
    rows, [head] = table(server, "audit"), table(server, "audit_heads")
    assert [row["prev_hash"] for row in rows] == ["0" * 64, *(row["hash"] for row in rows[:-1])]
    assert (head["seq"], head["hash"]) == (len(rows), rows[-1]["hash"])


@pytest.mark.parametrize("name", ["fastapi", "limit"])
def test_a_peer_fills_the_columns_that_gatehouse_fills(servers: dict[str, Server], name: str) -> None:
    server, other = servers["gatehouse"], servers[name]
    for each in (server, other):
        last_answer(each, "a new event")
    for rows in TABLES:
        ours, theirs = (table(each, rows)[-1] for each in (server, other))
        assert list(ours) == list(theirs)
        assert [value is None for value in ours.values()] == [value is None for value in theirs.values()]
