from __future__ import annotations

import dataclasses

import pytest
import sqlalchemy as sa

from storage.connections import engine
from storage.database import Storage
from storage.join.records import (
    JOINS,
    Registration,
    from_json,
    maybe_json,
    raft_step,
    registrations,
    selection,
    to_json,
)
from storage.join.refusals import Refusal, Refused
from tests.storage.join.work import approved, joining, registered, report, states

pytestmark = pytest.mark.anyio


def test_json_text_has_no_character_that_a_database_refuses() -> None:
    text = to_json(["\x00", "é"])
    assert text == '["\\u0000","é"]'
    assert from_json(text) == ["\x00", "é"]
    assert (maybe_json(None), from_json(None), maybe_json("")) == (None, None, '""')


def test_a_step_bears_the_name_of_its_raft() -> None:
    assert raft_step("control") == "raft:control"


async def test_each_member_of_a_registration_is_read_for_each_of_many(storage: Storage, url: str) -> None:
    made = [await registered(storage) for _ in range(3)]
    reading = engine(url, "read")
    with reading.connect() as connection:
        assert registrations(connection, selection().order_by(JOINS.c.join_id)) == made
        assert registrations(connection, selection().where(sa.false())) == []
    reading.dispose()
    names = {field.name for field in dataclasses.fields(Registration)}
    assert names - set(JOINS.c.keys()) == {"plan", "steps", "rafts", "position"}


async def test_places_close_up_when_one_that_waits_is_gone(storage: Storage) -> None:
    await joining(storage)
    waiting = [(await registered(storage)).join_id for _ in range(3)]
    for join_id in waiting:
        await approved(storage, join_id)
    assert await states(storage, *waiting) == [("approved", 1), ("approved", 2), ("approved", 3)]
    await storage.join.registrations.reject(waiting[0], "no")
    assert await states(storage, *waiting) == [("rejected", None), ("approved", 1), ("approved", 2)]
    assert await report(storage, waiting[2]) == Refused(Refusal.NOT_IN_TURN, "approved", 2)
