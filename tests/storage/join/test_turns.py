from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from storage.database import Storage
from storage.errors import Unavailable
from storage.join import turns
from storage.join.records import Failure
from storage.transaction import Transaction
from tests.storage.join.work import alter, approved, finish, joining, raft_states, registered, report, states, step

pytestmark = pytest.mark.anyio


async def write(storage: Storage, work: Callable[[Transaction], None]) -> None:
    def kind(transaction: Transaction, items: Sequence[None]) -> Sequence[None]:
        work(transaction)
        return items

    await storage.writer.submit(kind, None)


async def test_a_turn_that_somebody_has_is_given_to_nobody_else(storage: Storage) -> None:
    holder = await joining(storage)
    waiting = (await registered(storage)).join_id
    await approved(storage, waiting)
    await write(storage, turns.grant)
    assert await states(storage, holder, waiting) == [("joining", 0), ("approved", 1)]


async def test_a_turn_that_nobody_has_goes_to_who_was_approved_first(storage: Storage, url: str) -> None:
    holder = await joining(storage)
    first, second = [(await registered(storage)).join_id for _ in range(2)]
    await approved(storage, second)
    await approved(storage, first)
    alter(url, holder, in_turn=False, ended_at=1, state="joined")
    await write(storage, turns.grant)
    assert await states(storage, first, second) == [("approved", 1), ("joining", 0)]


async def test_failing_a_join_wants_it_out_of_what_it_reached(storage: Storage) -> None:
    join_id = await joining(storage)
    await report(storage, join_id, step("raft:store", "running"), step("services", "running"))
    await write(storage, lambda transaction: turns.fail(transaction, UUID(join_id), Failure("services", "no")))
    assert await raft_states(storage, join_id) == ["absent", "removing"]
    await write(storage, lambda transaction: turns.pass_on_if_out(transaction, UUID(join_id)))
    assert await storage.join.rafts.turn() is not None


async def test_a_join_is_not_joined_while_a_step_or_a_vote_is_missing(storage: Storage) -> None:
    join_id = await joining(storage)
    await report(storage, join_id, *(step(name, "done") for name in ("services", "complete")))
    await write(storage, lambda transaction: turns.join_if_done(transaction, UUID(join_id)))
    assert await states(storage, join_id) == [("joining", 0)]


async def test_an_end_and_the_next_turn_are_one_transaction(storage: Storage) -> None:
    holder, waiting = await joining(storage), (await registered(storage)).join_id
    await approved(storage, waiting)

    def fail(_: Transaction) -> None:
        raise Unavailable

    storage.writer.failure_points.before_commit = fail
    with pytest.raises(Unavailable):
        await report(storage, holder, step("services", "failed"))
    storage.writer.failure_points.before_commit = None
    assert await states(storage, holder, waiting) == [("joining", 0), ("approved", 1)]
    await finish(storage, holder)
    assert await states(storage, holder, waiting) == [("joined", None), ("joining", 0)]
