from __future__ import annotations

import pytest

from storage.database import Storage
from storage.join.ledger import LedgerMember

pytestmark = pytest.mark.anyio

URLS = ("https://10.0.0.5:2380",)


async def test_a_member_is_added_as_a_learner_then_votes_then_goes(storage: Storage) -> None:
    ledger = storage.join.ledger
    assert await ledger.members("control") == []
    founder = await ledger.add("control", "founder", ("https://10.0.0.1:2380",))
    member = await ledger.add("control", "node", URLS)
    assert member == LedgerMember(member_id=member.member_id, name="node", peer_urls=URLS, learner=True)
    assert await ledger.members("control") == [founder, member]
    assert await ledger.promote("control", member.member_id)
    assert [each.learner for each in await ledger.members("control")] == [True, False]
    assert await ledger.remove("control", member.member_id)
    assert await ledger.members("control") == [founder]


async def test_a_learner_that_is_added_again_is_the_same_member(storage: Storage) -> None:
    ledger = storage.join.ledger
    first = await ledger.add("control", "node", URLS)
    again = await ledger.add("control", "another", URLS)
    assert (again.member_id, again.name, again.learner) == (first.member_id, "node", True)
    assert (await ledger.add("other", "node", URLS)).member_id != first.member_id


async def test_a_voter_gives_way_to_a_later_one_of_its_name_and_peer_urls(storage: Storage) -> None:
    ledger = storage.join.ledger
    other = await ledger.add("control", "other", ("https://10.0.0.9:2380",))
    elsewhere = await ledger.add("elsewhere", "node", URLS)
    namesake = await ledger.add("control", "node", ("https://10.0.0.10:2380",))
    old = await ledger.add("control", "node", URLS)
    await ledger.promote("control", old.member_id)
    new = await ledger.add("control", "node", URLS)
    assert [each.learner for each in await ledger.members("control")] == [True, True, False, True]
    assert await ledger.promote("control", new.member_id)
    assert [each.member_id for each in await ledger.members("control")] == [
        each.member_id for each in (other, namesake, new)
    ]
    stranger = await ledger.add("control", "stranger", URLS)
    assert await ledger.promote("control", stranger.member_id)
    assert new.member_id in {each.member_id for each in await ledger.members("control")}
    assert await ledger.members("elsewhere") == [elsewhere]


async def test_what_is_no_member_is_neither_promoted_nor_removed(storage: Storage) -> None:
    ledger = storage.join.ledger
    member = await ledger.add("control", "node", URLS)
    for raft, member_id in (("other", member.member_id), ("control", "5d1f4a7e-3c52-7b90-8e61-0c2a9f47d813")):
        assert not await ledger.promote(raft, member_id)
        assert not await ledger.remove(raft, member_id)
    assert not await ledger.remove("control", "8e9e05c52164694d")
    assert await ledger.members("control") == [member]
