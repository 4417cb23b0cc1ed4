from __future__ import annotations

import uuid

import pytest

from handlers.join.rafts.ledger import LedgerRaft
from handlers.join.rafts.port import Member, RaftRefused
from storage.database import Storage

pytestmark = pytest.mark.anyio

URLS = ("https://node-2.example:2380",)


@pytest.fixture
def raft(storage: Storage) -> LedgerRaft:
    return LedgerRaft(storage.join.ledger, "control", 2380, "https")


async def test_a_member_is_a_learner_then_a_voter_then_gone(raft: LedgerRaft) -> None:
    assert raft.peer_urls("node-2.example") == URLS
    added = await raft.add("node-2", URLS)
    assert await raft.members() == [added] == [Member(added.member_id, "node-2", URLS, learner=True)]
    for _ in range(2):
        await raft.promote(added.member_id)
        assert await raft.members() == [Member(added.member_id, "node-2", URLS, learner=False)]
    for _ in range(2):
        await raft.remove(added.member_id)
        assert await raft.members() == []
    await raft.close()


async def test_who_is_no_member_cannot_vote(raft: LedgerRaft) -> None:
    with pytest.raises(RaftRefused):
        await raft.promote(str(uuid.uuid4()))


async def test_rafts_have_members_of_their_own(storage: Storage, raft: LedgerRaft) -> None:
    await raft.add("node-2", URLS)
    assert await LedgerRaft(storage.join.ledger, "store", 2381, "https").members() == []
