from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from storage.join.rafts import RaftWork, Turn
from storage.join.records import Failure, Peer
from tests.storage.join.work import (
    RAFTS,
    alter,
    approved,
    joining,
    keep,
    raft_states,
    registered,
    report,
    standing,
    states,
    step,
)
from tests.storage.work import open_storage, rows

pytestmark = pytest.mark.anyio

PEERS = (Peer("founder", "http://10.0.0.1:2380"), Peer("é \x00", "http://10.0.0.2:2380"))


async def turn(storage: Storage) -> Turn:
    found = await storage.join.rafts.turn()
    assert found is not None
    return found


async def reaching(storage: Storage, *rafts: str) -> str:
    """The id of a join that is a learner of these rafts."""
    join_id = await joining(storage)
    await report(storage, join_id, *(step(f"raft:{raft}", "running") for raft in rafts))
    for raft in rafts:
        await storage.join.rafts.added(join_id, raft, f"{raft}-1", PEERS)
    return join_id


async def test_nobody_has_the_turn_before_an_approval(storage: Storage) -> None:
    assert await storage.join.rafts.turn() is None
    await registered(storage)
    assert await storage.join.rafts.turn() is None


async def test_the_turn_tells_all_that_is_to_be_done(storage: Storage) -> None:
    node = await registered(storage, peer_urls=("http://10.0.0.5:2380",))
    await approved(storage, node.join_id)
    assert await turn(storage) == Turn(
        join_id=node.join_id,
        name=node.name,
        address=node.address,
        peer_urls=("http://10.0.0.5:2380",),
        state="joining",
        beats=0,
        rafts=tuple(
            RaftWork(raft=raft.name, kind=raft.kind, state="absent", member_id=None, before=None, reached=0)
            for raft in RAFTS
        ),
    )
    await report(storage, node.join_id, step("raft:store", "running"))
    assert await storage.join.rafts.note_before(node.join_id, "store", ["8e9e05c52164694d"])
    await storage.join.rafts.added(node.join_id, "store", "91bc3c398fb3c146", PEERS)
    store = (await turn(storage)).rafts[1]
    assert (store.state, store.member_id, store.before, store.reached) == (
        "learner",
        "91bc3c398fb3c146",
        ("8e9e05c52164694d",),
        1,
    )
    shown = (await standing(storage, node.join_id)).rafts[1]
    assert (shown.state, shown.member_id, shown.peers, shown.error) == ("learner", "91bc3c398fb3c146", PEERS, None)


async def test_the_members_before_are_those_of_the_first_note(storage: Storage) -> None:
    join_id = await joining(storage)
    await report(storage, join_id, step("raft:control", "running"))
    assert await storage.join.rafts.note_before(join_id, "control", [])
    assert await storage.join.rafts.note_before(join_id, "control", ["ours, after a crash"])
    assert (await turn(storage)).rafts[0].before == ()


async def test_a_note_for_a_join_that_has_failed_tells_that_it_is_not_to_be_added(storage: Storage) -> None:
    join_id = await joining(storage)
    await report(storage, join_id, step("raft:control", "running"))
    await report(storage, join_id, step("services", "failed"))
    assert not await storage.join.rafts.note_before(join_id, "control", ["other"])
    assert (await turn(storage)).rafts[0].before == ("other",)
    assert await raft_states(storage, join_id) == ["removing", "absent"]


async def test_what_was_added_after_the_failure_is_known_and_to_be_removed(storage: Storage) -> None:
    join_id = await joining(storage)
    await report(storage, join_id, step("raft:control", "running"))
    await storage.join.rafts.note_before(join_id, "control", [])
    await report(storage, join_id, step("services", "failed"))
    await storage.join.rafts.added(join_id, "control", "7", PEERS)
    await storage.join.rafts.promoted(join_id, "control")
    raft = (await turn(storage)).rafts[0]
    assert (raft.state, raft.member_id) == ("removing", "7")
    await storage.join.rafts.removed(join_id, "control")
    assert await raft_states(storage, join_id) == ["removed", "absent"]
    assert not await storage.join.rafts.added(join_id, "control", "8", PEERS)
    await storage.join.rafts.removed(join_id, "control")
    assert await raft_states(storage, join_id) == ["removed", "absent"]


async def test_what_is_told_twice_or_too_early_changes_nothing(storage: Storage) -> None:
    join_id = await joining(storage)
    rafts = storage.join.rafts
    await rafts.added(join_id, "control", "7", PEERS)
    await rafts.promoted(join_id, "control")
    await rafts.removed(join_id, "control")
    await rafts.refused(join_id, "control", "no")
    assert await states(storage, join_id) == [("joining", 0)]
    assert await raft_states(storage, join_id) == ["absent", "absent"]
    await report(storage, join_id, step("raft:control", "running"))
    await rafts.added(join_id, "control", "7", PEERS)
    await rafts.added(join_id, "control", "8", ())
    await rafts.promoted(join_id, "control")
    assert await raft_states(storage, join_id) == ["learner", "absent"]
    assert (await standing(storage, join_id)).rafts[0].member_id == "7"


async def test_a_failed_join_keeps_its_turn_until_it_is_out_of_every_raft(storage: Storage) -> None:
    join_id, waiting = await reaching(storage, "store", "control"), (await registered(storage)).join_id
    await approved(storage, waiting)
    await report(storage, join_id, step("services", "failed"))
    assert [(raft.state, raft.reached) for raft in (await turn(storage)).rafts] == [("removing", 2), ("removing", 1)]
    await storage.join.rafts.removed(join_id, "control")
    await storage.join.rafts.removed(join_id, "control")
    assert await states(storage, join_id, waiting) == [("failed", None), ("approved", 1)]
    later = (await registered(storage)).join_id
    assert (await approved(storage, later)).position == 2
    await storage.join.rafts.removed(join_id, "store")
    assert await states(storage, waiting, later) == [("joining", 0), ("approved", 1)]
    assert (await turn(storage)).join_id == waiting


async def test_a_raft_that_refuses_for_good_fails_the_join_at_its_step(storage: Storage) -> None:
    join_id = await reaching(storage, "control")
    await report(storage, join_id, step("raft:store", "running"))
    await storage.join.rafts.trouble(join_id, "store", "unreachable")
    await storage.join.rafts.refused(join_id, "store", "the peer URL is another member's")
    failed = await standing(storage, join_id)
    assert failed.state == "failed"
    assert failed.failure == Failure("raft:store", "the peer URL is another member's")
    assert [(raft.state, raft.error) for raft in failed.rafts] == [("removing", None), ("removing", None)]
    await storage.join.rafts.refused(join_id, "store", "again")
    assert await standing(storage, join_id) == failed


async def test_trouble_is_shown_until_it_is_over(storage: Storage) -> None:
    join_id = await joining(storage)
    await report(storage, join_id, step("raft:control", "running"))

    async def error() -> str | None:
        return (await standing(storage, join_id)).rafts[0].error

    await storage.join.rafts.trouble(join_id, "control", "unhealthy \x00")
    assert await error() == "unhealthy \x00"
    await storage.join.rafts.trouble(join_id, "control", None)
    assert await error() is None
    await storage.join.rafts.trouble(join_id, "control", "unhealthy")
    await storage.join.rafts.added(join_id, "control", "7", ())
    assert await error() is None
    await storage.join.rafts.trouble(join_id, "control", "too late")
    assert await error() is None


async def test_silence_fails_a_join_unless_it_has_shown_life(storage: Storage) -> None:
    join_id = await joining(storage)
    heard = (await turn(storage)).beats
    await report(storage, join_id)
    assert not await storage.join.rafts.time_out(join_id, heard, "silent")
    await report(storage, join_id, step("services", "done"), step("raft:control", "running"))
    heard = (await turn(storage)).beats
    await storage.join.rafts.added(join_id, "control", "7", ())
    assert not await storage.join.rafts.time_out(join_id, heard, "silent")
    heard = (await turn(storage)).beats
    assert await storage.join.rafts.time_out(join_id, heard, "silent")
    assert (await standing(storage, join_id)).failure == Failure("raft:control", "silent")
    assert not await storage.join.rafts.time_out(join_id, heard, "silent")
    assert await raft_states(storage, join_id) == ["removing", "absent"]


async def test_a_join_that_waits_for_its_turn_is_not_timed_out(storage: Storage) -> None:
    await joining(storage)
    waiting = (await registered(storage)).join_id
    await approved(storage, waiting)
    assert not await storage.join.rafts.time_out(waiting, 0, "silent")
    assert await states(storage, waiting) == [("approved", 1)]


async def test_pending_joins_expire_and_no_others(storage: Storage, url: str) -> None:
    assert await storage.join.rafts.next_expiry() is None
    first, second, third = [(await registered(storage)).join_id for _ in range(3)]
    in_turn = await joining(storage)
    alter(url, first, expires_at=1000)
    alter(url, second, expires_at=2000)
    alter(url, in_turn, expires_at=500)
    assert await storage.join.rafts.next_expiry() == 1000
    await storage.join.rafts.expire()
    assert await states(storage, first, second, third, in_turn) == [
        ("expired", None),
        ("expired", None),
        ("pending", None),
        ("joining", 0),
    ]
    assert (await standing(storage, first)).failure is None
    assert await storage.join.rafts.next_expiry() == (await standing(storage, third)).expires_at


async def test_an_approval_while_the_holder_of_the_turn_fails_is_neither_lost_nor_a_second_turn(
    storage: Storage, url: str, audit_file: Path
) -> None:
    holder = await joining(storage)
    waiting = [(await registered(storage)).join_id for _ in range(4)]
    async with open_storage(url, audit_file) as other:
        await asyncio.gather(
            report(other, holder, step("services", "failed")),
            *(approved(each, join_id) for each, join_id in zip([storage, other] * 2, waiting, strict=True)),
        )
    found = await states(storage, *waiting)
    assert sorted(found, key=lambda pair: pair[1] or 0) == [
        ("joining", 0),
        ("approved", 1),
        ("approved", 2),
        ("approved", 3),
    ]


async def test_what_happens_in_rafts_is_audited(storage: Storage, url: str) -> None:
    join_id = await reaching(storage, "control")
    await report(storage, join_id, step("complete", "running"))
    await keep(storage)
    await report(storage, join_id, step("complete", "failed", "no"))
    await keep(storage)
    told = [(row.action, json.loads(row.body)) for row in rows(url, AUDIT) if row.action.startswith("join.raft")]
    assert told == [
        ("join.raft-added", {"memberId": "control-1", "raft": "control"}),
        ("join.raft-promoted", {"raft": "control"}),
        ("join.raft-removed", {"raft": "control"}),
    ]
