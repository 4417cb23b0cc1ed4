from __future__ import annotations

from uuid import UUID

import pytest

from storage.connections import engine
from storage.database import Storage
from storage.execution.records import Advance, Doubt, StepResult
from storage.execution.rows import attempts_of, command_of, command_values, results_of
from tests.storage.execution.work import NEXT, command, sent, settle, taken, taken_up

pytestmark = pytest.mark.anyio


async def test_commands_attempts_and_results_come_back_as_they_were_written(storage: Storage, url: str) -> None:
    bytes_of_all_values = bytes(range(256))
    what = command(body=bytes_of_all_values, headers=(("A", "b"), ("A", 'é"')), url="https://a.example/%00?q=%F0")
    claim = await taken(storage)
    await sent(storage, claim, what)
    await settle(storage, claim, NEXT, "completed", 200)
    await taken_up(storage, claim)
    await storage.execution.journal.settle(claim, step_type="choose", move=Advance("other", None))
    await sent(storage, claim, command(body=None, method="GET"))
    await settle(storage, claim, Doubt(None), "unanswered")
    reading = engine(url, "read")
    with reading.connect() as connection, connection.begin():
        run_id = UUID(claim.run_id)
        assert command_of(connection, run_id, "wait") == what
        assert command_of(connection, run_id, "next") is None
        assert command_of(connection, run_id, "other") == command(body=None, method="GET")
        attempts = attempts_of(connection, run_id)
        assert results_of(connection, run_id) == {"wait": StepResult(200, '{"b":1}', 7)}
    reading.dispose()
    assert {step: [attempt.result for attempt in each] for step, each in attempts.items()} == {
        "wait": ["completed"],
        "other": ["unanswered"],
    }


async def test_the_longest_result_comes_back_as_it_was_given_whatever_it_holds(storage: Storage) -> None:
    body = '"' + "x\\u0000é\U0001f600" * 20_164 + '"'
    assert 262_000 < len(body.encode()) <= 262_144
    claim = await taken(storage)
    await sent(storage, claim)
    await settle(storage, claim, Advance("next", StepResult(201, body, 7)), "completed", 201)
    assert (await taken_up(storage, claim)).results == {"wait": StepResult(201, body, 7)}


def test_the_values_of_a_command_are_what_its_row_holds() -> None:
    assert command_values(command(headers=(("A", "b"),)))["headers"] == '[["A","b"]]'
