from __future__ import annotations

import pytest

from storage.database import Storage
from tests.storage.join.work import (
    DONE,
    RAFTS_CHANGED,
    approved,
    finish,
    joining,
    keep,
    lines,
    raft_states,
    registered,
    report,
    standing,
    states,
    step,
)

pytestmark = pytest.mark.anyio


async def test_a_node_goes_all_the_way(storage: Storage) -> None:
    join_id = (await registered(storage)).join_id
    assert await states(storage, join_id) == [("pending", None)]
    assert (await approved(storage, join_id)).position == 0
    assert await report(storage, join_id, step("raft:control", "running"), lines=lines(1, 2)) == RAFTS_CHANGED
    assert await raft_states(storage, join_id) == ["adding", "absent"]
    await keep(storage)
    assert await raft_states(storage, join_id) == ["learner", "absent"]
    assert await report(storage, join_id, step("raft:control", "done"), step("services", "running")) == DONE
    assert await report(storage, join_id, step("raft:store", "done"), step("services", "done")) == RAFTS_CHANGED
    await keep(storage)
    assert await raft_states(storage, join_id) == ["learner", "learner"]
    assert await report(storage, join_id, step("complete", "running")) == RAFTS_CHANGED
    await keep(storage)
    assert await raft_states(storage, join_id) == ["voter", "voter"]
    assert await states(storage, join_id) == [("joining", 0)]
    assert await report(storage, join_id, step("complete", "done")) == RAFTS_CHANGED
    ended = await standing(storage, join_id)
    assert (ended.state, ended.position, ended.failure) == ("joined", None, None)
    assert ended.ended_at is not None
    assert await storage.join.rafts.turn() is None


async def test_three_joins_have_their_turns_in_the_order_of_approval(storage: Storage) -> None:
    first = await joining(storage)
    second, third = [(await registered(storage)).join_id for _ in range(2)]
    assert (await approved(storage, third)).position == 1
    assert (await approved(storage, second)).position == 2
    await finish(storage, first)
    assert await states(storage, first, second, third) == [("joined", None), ("approved", 1), ("joining", 0)]
    await report(storage, third, step("services", "failed"))
    assert await states(storage, first, second, third) == [("joined", None), ("joining", 0), ("failed", None)]
    await finish(storage, second)
