from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from handlers.join.rafts.ledger import LedgerRaft
from handlers.join.rafts.port import RaftRefused, RaftTrouble
from storage.database import Storage
from storage.errors import Unavailable
from storage.join.rafts import Rafts
from storage.join.registrations import RaftPlan
from tests.handlers.join.keeping import kept, until
from tests.handlers.join.rafts.memory import FOUNDER, MemoryRaft
from tests.storage.join import work
from tests.storage.join.work import joining, registered, standing

pytestmark = pytest.mark.anyio

STORE = (RaftPlan("store", "etcd"),)
BOTH = (RaftPlan("store", "etcd"), RaftPlan("index", "etcd"))


async def test_joins_come_one_after_the_other_and_each_becomes_a_voter(storage: Storage) -> None:
    raft = LedgerRaft(storage.join.ledger, "control", 2380, "https")
    join_ids = [(await registered(storage, rafts=(RaftPlan("control", "ledger"),))).join_id for _ in range(3)]
    for join_id in join_ids:
        await work.approved(storage, join_id)
    async with kept(storage, raft) as keeper:
        for place, join_id in enumerate(join_ids):
            await keeper.state(join_id, "joining")
            await keeper.report(join_id, ("raft:control", "running"))
            await keeper.raft(join_id, "learner", "control")
            assert [member.learner for member in await raft.members()] == [False] * place + [True]
            await keeper.report(join_id, *((name, "done") for name in ("raft:control", "services", "complete")))
            await keeper.state(join_id, "joined")
    assert [member.learner for member in await raft.members()] == [False] * 3


async def test_two_keepers_of_one_database_do_nothing_twice(storage: Storage) -> None:
    raft = MemoryRaft()
    joined, failed = await joining(storage, rafts=STORE), (await registered(storage, rafts=STORE)).join_id
    await work.approved(storage, failed)
    async with kept(storage, raft) as keeper, kept(storage, raft) as other:
        await keeper.report(joined, *((name, "done") for name in ("raft:store", "services", "complete")))
        other.turns.wake()
        keeper.later(5)
        other.later(5)
        await keeper.state(failed, "joining")
        await keeper.report(failed, ("raft:store", "running"))
        other.turns.wake()
        await keeper.raft(failed, "learner")
        await keeper.report(failed, ("services", "failed"))
        other.turns.wake()
        await keeper.raft(failed, "removed")
    assert raft.learners == {FOUNDER.member_id: False, "m-2": False}
    assert [change for change, _ in raft.changes].count("add") == 2


async def test_a_raft_does_not_wait_for_another_one(storage: Storage) -> None:
    slow, quick = MemoryRaft("store"), MemoryRaft("index")
    slow.hangs["add"] = asyncio.Event()
    join_id = await joining(storage, rafts=BOTH)
    async with kept(storage, slow, quick) as keeper:
        await keeper.report(join_id, ("raft:store", "running"), ("raft:index", "running"))
        await keeper.raft(join_id, "learner", "index")
        assert (await keeper.record(join_id, "store")).state == "adding"
        slow.hangs["add"].set()
        await keeper.raft(join_id, "learner", "store")


async def test_what_keeps_a_raft_from_changing_is_shown_once_and_until_it_changes(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str | None] = []
    tell = Rafts.trouble

    async def counted(of: Rafts, join_id: str, raft: str, error: str | None) -> None:
        told.append(error)
        await tell(of, join_id, raft, error)

    monkeypatch.setattr(Rafts, "trouble", counted)
    raft = MemoryRaft()
    raft.trouble["members"] = RaftTrouble("away")
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, raft) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))
        await keeper.error(join_id, "away")
        for _ in range(3):
            keeper.later(5)
            await keeper.look()
        raft.trouble["members"] = RaftTrouble("unhealthy")
        keeper.later(5)
        await keeper.error(join_id, "unhealthy")
        del raft.trouble["members"]
        keeper.later(5)
        assert (await keeper.raft(join_id, "learner")).error is None
    assert told == ["away", "unhealthy"]
    assert [record.getMessage() for record in caplog.records] == ["raft store: away", "raft store: unhealthy"]


async def test_a_raft_in_trouble_is_tried_again_at_growing_distances_and_at_once_for_another_end(
    storage: Storage,
) -> None:
    raft = MemoryRaft()
    raft.trouble["members"] = RaftTrouble("away")
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, raft) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))
        await keeper.error(join_id, "away")
        for tries, seconds in enumerate([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5], start=1):
            await keeper.look()
            keeper.clock.now += seconds - 0.01
            await keeper.look()
            assert len(raft.calls) == tries
            keeper.clock.now += 0.02
            await keeper.look()
            await keeper.look()
            assert len(raft.calls) == tries + 1
        await keeper.report(join_id, ("services", "failed"))
        await keeper.raft(join_id, "removed")


async def test_silence_fails_a_join_and_the_next_has_its_turn(storage: Storage) -> None:
    join_id = await joining(storage, rafts=STORE)
    next_id = (await registered(storage, rafts=STORE)).join_id
    await work.approved(storage, next_id)
    raft = MemoryRaft()
    async with kept(storage, raft, timeout_seconds=5) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))
        await keeper.raft(join_id, "learner")
        await keeper.look()
        await keeper.pass_seconds(4)
        assert (await standing(storage, join_id)).state == "joining"
        # A report without an event, too, gives it the whole time anew.
        await keeper.report(join_id)
        await keeper.look()
        await keeper.pass_seconds(4)
        assert (await standing(storage, join_id)).state == "joining"
        keeper.later(1)
        failed = await keeper.state(join_id, "failed")
        assert failed.failure is not None
        assert failed.failure == ("raft:store", "the node has reported nothing for 5 seconds")
        await keeper.raft(join_id, "removed")
        assert raft.present == [FOUNDER]
        await keeper.state(next_id, "joining")


async def test_the_time_does_not_run_while_a_raft_is_changed(storage: Storage) -> None:
    raft = MemoryRaft()
    raft.hangs = {"add": asyncio.Event(), "promote": asyncio.Event()}
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, raft, timeout_seconds=3) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))
        for call, state in (("add", "learner"), ("promote", "voter")):
            await keeper.look()
            await keeper.pass_seconds(6)
            assert (await standing(storage, join_id)).state == "joining"
            raft.hangs[call].set()
            await keeper.raft(join_id, state)
            await keeper.report(join_id, ("complete", "running"))
        await keeper.look()
        await keeper.pass_seconds(2)
        assert (await standing(storage, join_id)).state == "joining"
        keeper.later(1)
        await keeper.state(join_id, "failed")


async def test_a_process_that_was_stopped_for_long_does_not_take_that_for_silence(storage: Storage) -> None:
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, MemoryRaft(), timeout_seconds=3) as keeper:
        await keeper.look()
        keeper.clock.now += 3600
        await keeper.look()
        await keeper.pass_seconds(1)
        assert (await standing(storage, join_id)).state == "joining"
        keeper.later(1)
        await keeper.state(join_id, "failed")


async def test_after_a_restart_the_turn_has_its_whole_time(storage: Storage) -> None:
    join_id = await joining(storage, rafts=STORE)
    for _ in range(3):
        async with kept(storage, MemoryRaft(), timeout_seconds=3) as keeper:
            await keeper.look()
            await keeper.pass_seconds(2)
    assert (await standing(storage, join_id)).state == "joining"


async def test_a_failed_join_leaves_its_rafts_latest_first(storage: Storage) -> None:
    tried: list[str] = []

    class Noted(MemoryRaft):
        async def remove(self, member_id: str) -> None:
            tried.append(self.name)
            await super().remove(member_id)

    rafts = [Noted("store"), Noted("index"), Noted("queue")]
    join_id = await joining(storage, rafts=[RaftPlan(raft.name, raft.kind) for raft in rafts])
    async with kept(storage, *rafts) as keeper:
        for name in ("index", "queue", "store"):
            await keeper.report(join_id, (f"raft:{name}", "running"))
            await keeper.raft(join_id, "learner", name)
        # The one that cannot be left yet does not hold up the others, and the turn is not over.
        rafts[2].trouble["remove"] = RaftTrouble("away")
        await keeper.report(join_id, ("services", "failed"))
        await keeper.raft(join_id, "removed", "index")
        assert tried == ["store", "queue", "index"]
        assert await storage.join.rafts.turn() is not None
        await keeper.error(join_id, "away", "queue")
        rafts[2].trouble.clear()
        keeper.later(5)
        await keeper.raft(join_id, "removed", "queue")
    assert await storage.join.rafts.turn() is None
    assert [raft.present for raft in rafts] == [[FOUNDER]] * 3


async def test_what_a_raft_refuses_for_good_fails_the_join_at_its_step(storage: Storage) -> None:
    raft = MemoryRaft()
    raft.trouble["add"] = RaftRefused("given member URLs are invalid")
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, raft) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))
        failed = await keeper.state(join_id, "failed")
        await keeper.raft(join_id, "removed")
    assert failed.failure == ("raft:store", "given member URLs are invalid")
    assert await storage.join.rafts.turn() is None


async def test_a_refusal_on_the_way_out_is_told_and_tried_again(storage: Storage) -> None:
    raft = MemoryRaft()
    raft.trouble["remove"] = RaftRefused("no")
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, raft) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))
        await keeper.raft(join_id, "learner")
        await keeper.report(join_id, ("services", "failed"))
        await keeper.error(join_id, "no")
        raft.trouble.clear()
        keeper.later(5)
        await keeper.raft(join_id, "removed")


async def test_a_node_with_the_founders_url_fails_and_the_founder_stays(storage: Storage) -> None:
    raft = MemoryRaft()
    join_id = await joining(storage, rafts=STORE, peer_urls=FOUNDER.peer_urls)
    async with kept(storage, raft) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))
        await keeper.raft(join_id, "removed")
    assert raft.present == [FOUNDER]
    assert raft.changes == []


async def test_a_join_that_fails_while_it_is_added_is_taken_out_again(storage: Storage) -> None:
    raft = MemoryRaft()
    raft.hangs["add"] = asyncio.Event()
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, raft) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))

        async def asked() -> bool:
            return "add" in raft.calls

        await until(asked)
        await keeper.report(join_id, ("services", "failed"))
        await keeper.look()
        assert (await keeper.record(join_id)).state == "removing"
        raft.hangs["add"].set()
        await keeper.raft(join_id, "removed")
    assert raft.changes == [("add", "m-2"), ("remove", "m-2")]


@pytest.mark.parametrize("raft", [MemoryRaft("other"), MemoryRaft("store", "ledger")])
async def test_a_raft_that_the_settings_do_not_have_any_more_is_told_of(storage: Storage, raft: MemoryRaft) -> None:
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, raft) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))
        await keeper.error(join_id, "the settings have no raft of this name and the kind etcd")
    assert raft.calls == []


async def test_a_fault_that_nobody_foresaw_is_logged_and_what_it_hit_is_tried_again(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    raft = MemoryRaft()
    raft.trouble["members"] = ZeroDivisionError("at fault")
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, raft) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))

        async def tried() -> bool:
            keeper.later(0.5)
            return len(raft.calls) > 3

        await until(tried)
        await keeper.error(join_id, "this server has failed at it, and its log tells where")
        raft.trouble.clear()
        keeper.later(5)
        await keeper.raft(join_id, "learner")
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]


@pytest.mark.parametrize("call", ["turn", "next_expiry", "note_before", "added", "trouble"])
async def test_an_outage_of_storage_is_logged_now_and_then_and_sat_out(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    outages = 0
    working = getattr(Rafts, call)

    async def away_at_first(*arguments: Any) -> Any:
        nonlocal outages
        outages += 1
        if outages <= 3:
            raise Unavailable("the database cannot do its work")
        return await working(*arguments)

    monkeypatch.setattr(Rafts, call, away_at_first)
    raft = MemoryRaft()
    if call == "trouble":
        raft.trouble["members"] = RaftTrouble("away")
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, raft) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))

        async def over() -> bool:
            keeper.later(1)
            return outages > 3

        await until(over)
        if call == "trouble":
            await keeper.error(join_id, "away")
            raft.trouble.clear()
        keeper.later(5)
        await keeper.raft(join_id, "learner")
    assert len(raft.present) == 2
    complaints = [record for record in caplog.records if not record.getMessage().startswith("raft ")]
    told = "turns cannot be kept for now: the database cannot do its work"
    assert {(record.getMessage(), record.levelno, record.exc_info) for record in complaints} == {
        (told, logging.WARNING, None)
    }


async def test_a_join_that_nobody_approves_expires(storage: Storage, database_url: str) -> None:
    waiting = await registered(storage)
    overdue = await registered(storage)
    work.alter(database_url, overdue.join_id, expires_at=overdue.registered_at)
    async with kept(storage) as keeper:
        await keeper.state(overdue.join_id, "expired")
    assert (await standing(storage, waiting.join_id)).state == "pending"


@pytest.mark.parametrize("call", ["members", "add"])
async def test_it_ends_at_once_whatever_is_under_way(storage: Storage, call: str) -> None:
    raft = MemoryRaft()
    raft.hangs[call] = asyncio.Event()
    join_id = await joining(storage, rafts=STORE)
    async with kept(storage, raft) as keeper:
        await keeper.report(join_id, ("raft:store", "running"))

        async def asked() -> bool:
            return call in raft.calls

        await until(asked)
    assert (await standing(storage, join_id)).rafts[0].state == "adding"
    del raft.hangs[call]
    async with kept(storage, raft) as keeper:
        await keeper.raft(join_id, "learner")
    assert len(raft.present) == 2
