"""Joins whose raft is a real etcd cluster, and what the adapter takes for granted of one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from handlers.join.rafts.etcd import EtcdRaft
from handlers.join.rafts.port import RaftRefused, RaftTrouble
from storage.database import Storage
from storage.join.registrations import RaftPlan, RaftRecord
from tests.handlers.join.keeping import Keeper, RunningClock, kept
from tests.storage.join.work import approved, registered, standing
from tests.support.effort import in_ci_alone
from tests.support.etcd import Etcd
from tests.support.programs import needs

pytestmark = [pytest.mark.anyio, needs("etcd")]

UNKNOWN_PEER = "http://127.0.0.1:9"


@pytest.fixture
def new_etcd(tmp_path: Path) -> Iterator[Callable[[str], Etcd]]:
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(Etcd(tmp_path, name))


@pytest.fixture
def founder(new_etcd: Callable[[str], Etcd]) -> Etcd:
    etcd = new_etcd("founder")
    etcd.found()
    return etcd


@pytest.fixture
async def raft(founder: Etcd) -> AsyncIterator[EtcdRaft]:
    made = EtcdRaft("store", [founder.url], 2380, "http", call_seconds=1)
    yield made
    await made.close()


class Queue:
    """Joins of which each has an etcd of its own; the first has the turn."""

    def __init__(self, storage: Storage, keeper: Keeper) -> None:
        self.storage = storage
        self.keeper = keeper

    async def approved(self, etcd: Etcd) -> str:
        plan = (RaftPlan("store", "etcd"),)
        joined = await registered(self.storage, name=etcd.name, peer_urls=(etcd.peer_url,), rafts=plan)
        await approved(self.storage, joined.join_id)
        return joined.join_id

    async def learner(self, join_id: str, etcd: Etcd) -> RaftRecord:
        """Let a join report its raft's step and start its etcd as the answer says."""
        await self.keeper.report(join_id, ("raft:store", "running"))
        record = await self.keeper.raft(join_id, "learner")
        etcd.join([(peer.name, peer.peer_url) for peer in record.peers])
        return record


@pytest.fixture
async def queue(storage: Storage, raft: EtcdRaft) -> AsyncIterator[Queue]:
    async with kept(storage, raft, clock=RunningClock()) as keeper:
        yield Queue(storage, keeper)


async def test_etcd_answers_as_the_adapter_has_it(founder: Etcd, raft: EtcdRaft) -> None:
    [first] = await raft.members()
    assert (first.name, first.peer_urls, first.learner) == ("founder", (founder.peer_url,), False)
    with pytest.raises(RaftRefused, match="URLs are invalid"):
        await raft.add("node", ("http://node",))
    with pytest.raises(RaftTrouble, match="Peer URLs already exists"):
        await raft.add("node", (founder.peer_url,))
    added = await raft.add("node", (UNKNOWN_PEER,))
    assert (added.name, added.peer_urls, added.learner) == ("", (UNKNOWN_PEER,), True)
    assert await raft.members() == [first, added] or await raft.members() == [added, first]
    with pytest.raises(RaftTrouble, match="too many learner members"):
        await raft.add("other", ("http://127.0.0.1:10",))
    with pytest.raises(RaftTrouble, match="in sync with leader"):
        await raft.promote(added.member_id)
    await raft.promote(first.member_id)
    for _ in range(2):
        await raft.remove(added.member_id)
    with pytest.raises(RaftRefused, match="member not found"):
        await raft.promote(added.member_id)
    assert await raft.members() == [first]


async def test_a_member_that_is_cut_off_from_the_others_gives_no_list(founder: Etcd) -> None:
    raft = EtcdRaft("store", [founder.url], 2380, "http", call_seconds=0.3)
    assert founder.ask("cluster/member/add", {"peerURLs": [UNKNOWN_PEER]}).is_success
    assert len(founder.members()) == 2
    with pytest.raises(RaftTrouble, match=r"has not answered for 0\.3 s"):
        await raft.members()
    await raft.close()


async def test_a_joiner_learns_until_it_completes_and_then_votes(
    queue: Queue, founder: Etcd, new_etcd: Callable[[str], Etcd]
) -> None:
    joiner = new_etcd("joiner")
    join_id = await queue.approved(joiner)
    record = await queue.learner(join_id, joiner)
    assert [peer.name for peer in record.peers if peer.peer_url == joiner.peer_url] == ["joiner"]
    await queue.keeper.report(join_id, ("raft:store", "done"), ("services", "done"))
    assert founder.members() == {founder.peer_url: False, joiner.peer_url: True}
    await queue.keeper.report(join_id, ("complete", "done"))
    await queue.keeper.state(join_id, "joined")
    assert founder.members() == {founder.peer_url: False, joiner.peer_url: False}
    await until_true(joiner.answers)


async def test_a_learner_that_fails_is_out_before_the_next_turn_also_where_the_founder_is_away_meanwhile(
    queue: Queue, founder: Etcd, new_etcd: Callable[[str], Etcd]
) -> None:
    first, second = new_etcd("first"), new_etcd("second")
    first_id, second_id = await queue.approved(first), await queue.approved(second)
    await queue.learner(first_id, first)
    await until_true(first.learns)
    founder.kill()
    await queue.keeper.report(first_id, ("services", "failed"))
    await queue.keeper.error(first_id, f"{founder.url}: cannot be reached")
    assert (await standing(queue.storage, second_id)).state == "approved"
    founder.start()
    await queue.keeper.state(second_id, "joining")
    assert founder.members() == {founder.peer_url: False}
    assert await asyncio.to_thread(first.end) == 0
    await queue.learner(second_id, second)
    assert founder.members() == {founder.peer_url: False, second.peer_url: True}


async def test_a_founder_that_hangs_is_waited_for(queue: Queue, founder: Etcd, new_etcd: Callable[[str], Etcd]) -> None:
    joiner = new_etcd("joiner")
    join_id = await queue.approved(joiner)
    await queue.learner(join_id, joiner)
    founder.pause()
    await queue.keeper.report(join_id, ("services", "failed"))
    await queue.keeper.error(join_id, f"{founder.url}: has not answered for 1 s")
    founder.go_on()
    await queue.keeper.raft(join_id, "removed")
    assert founder.members() == {founder.peer_url: False}


# A cluster of which etcd says that it is unhealthy stays so for five seconds.
@in_ci_alone
async def test_a_cluster_that_is_unhealthy_after_a_join_is_asked_again(
    queue: Queue, founder: Etcd, new_etcd: Callable[[str], Etcd]
) -> None:
    first, second = new_etcd("first"), new_etcd("second")
    first_id, second_id = await queue.approved(first), await queue.approved(second)
    await queue.learner(first_id, first)
    await queue.keeper.report(first_id, *((step, "done") for step in ("raft:store", "services", "complete")))
    await queue.keeper.state(second_id, "joining")
    await queue.keeper.report(second_id, ("raft:store", "running"))
    await queue.keeper.error(second_id, f"{founder.url}: etcdserver: unhealthy cluster")
    await queue.keeper.raft(second_id, "learner")
    assert founder.members() == {founder.peer_url: False, first.peer_url: False, second.peer_url: True}


async def until_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.02)
