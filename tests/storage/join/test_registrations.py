from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from storage.audit import AUDIT
from storage.database import Storage
from storage.join.records import JOINS
from storage.join.refusals import Refusal, Refused
from storage.join.registrations import (
    APPROVAL_TIME,
    CERTIFICATE_TIME,
    Failure,
    Identity,
    JoinState,
    Registered,
    Registration,
)
from tests.storage.join.work import (
    PIN,
    alter,
    approved,
    finish,
    joining,
    keep,
    minted,
    newcomer,
    raft_states,
    registered,
    report,
    standing,
    states,
    step,
    writing,
)
from tests.storage.work import open_storage, rows

pytestmark = pytest.mark.anyio

TOKEN_REFUSED, NAME_TAKEN = Refused(Refusal.TOKEN_REFUSED), Refused(Refusal.NAME_TAKEN)
UNKNOWN = ("5d1f4a7e-3c52-7b90-8e61-0c2a9f47d813", "", "x", "0" * 31, "é" * 36, "\x00")


async def in_state(storage: Storage, url: str, state: str) -> str:
    """The id of a join in this state."""
    if state in ("pending", "rejected", "expired", "approved"):
        if state == "approved":
            await joining(storage)
        join_id = (await registered(storage)).join_id
        if state == "approved":
            await approved(storage, join_id)
        elif state == "rejected":
            await storage.join.registrations.reject(join_id, "no")
        elif state == "expired":
            alter(url, join_id, expires_at=0)
            await storage.join.rafts.expire()
    else:
        join_id = await joining(storage)
        if state == "joined":
            await finish(storage, join_id)
        elif state == "failed":
            await report(storage, join_id, step("services", "failed"))
    assert (await standing(storage, join_id)).state == state
    return join_id


async def test_a_registration_has_what_it_asked_for_and_is_pending(storage: Storage) -> None:
    before = time.time_ns() // 1_000_000
    asked = newcomer(await minted(storage), peer_urls=("http://10.0.0.5:2380",))
    outcome = await storage.join.registrations.register(asked)
    assert isinstance(outcome, Registered)
    made = outcome.registration
    assert (made.name, made.role, made.address) == (asked.name, asked.role, asked.address)
    assert (made.state, made.position, made.failure) == ("pending", None, None)
    assert (made.approved_at, made.turn_started_at, made.ended_at) == (None, None, None)
    assert made.plan == ("raft:control", "raft:store", "services", "complete")
    assert [(each.step, each.status) for each in made.steps] == [(name, "waiting") for name in made.plan]
    assert [(raft.name, raft.kind, raft.state, raft.member_id, raft.peers) for raft in made.rafts] == [
        ("control", "ledger", "absent", None, ()),
        ("store", "etcd", "absent", None, ()),
    ]
    assert before <= made.registered_at
    assert made.expires_at == made.registered_at + APPROVAL_TIME
    assert made.certificate_expires_at % 1000 == 0
    assert 0 <= made.registered_at + CERTIFICATE_TIME - made.certificate_expires_at < 1000
    assert await storage.join.registrations.get(made.join_id) == made
    assert await storage.join.registrations.identity(made.join_id) == Identity(PIN, made.plan)


async def test_a_token_that_is_used_many_times_at_once_makes_one_registration(
    storage: Storage, url: str, audit_file: Path
) -> None:
    token_id = await minted(storage)
    async with open_storage(url, audit_file) as other:
        outcomes = await asyncio.gather(
            *(
                each.join.registrations.register(newcomer(token_id, pin=f"{pin:064x}"))
                for pin in range(20)
                for each in (storage, other)
            )
        )
    made = [outcome.registration.join_id for outcome in outcomes if isinstance(outcome, Registered)]
    assert len(made) == 2
    assert len(set(made)) == len(rows(url, JOINS)) == 1
    assert [outcome for outcome in outcomes if not isinstance(outcome, Registered)] == [TOKEN_REFUSED] * 38


async def test_the_same_key_gets_its_own_registration_again_while_it_lives(storage: Storage, url: str) -> None:
    asked = newcomer(await minted(storage, ttl_seconds=60))
    first = await storage.join.registrations.register(asked)
    assert isinstance(first, Registered)
    join_id = first.registration.join_id
    alter(url, join_id, certificate_expires_at=0)
    other = newcomer(asked.token_id, name="another", role="storage")
    again = await storage.join.registrations.register(other)
    assert isinstance(again, Registered)
    # It is counted from now, in whole seconds.
    ending = again.registration.certificate_expires_at
    assert ending >= first.registration.certificate_expires_at
    assert again == Registered(replace(first.registration, certificate_expires_at=ending), new=False)
    await approved(storage, join_id)
    again = await storage.join.registrations.register(other)
    assert isinstance(again, Registered)
    assert (again.registration.state, again.new) == ("joining", False)
    await finish(storage, join_id)
    assert await storage.join.registrations.register(asked) == TOKEN_REFUSED


async def test_a_token_that_is_not_good_makes_nothing(storage: Storage, url: str) -> None:
    revoked, expired, spent = await minted(storage), await minted(storage, ttl_seconds=0), await minted(storage)
    await storage.join.tokens.revoke(revoked)
    await storage.join.registrations.register(newcomer(spent, pin="00" * 32))
    for token_id in (UNKNOWN[0], revoked, expired, spent):
        assert await storage.join.registrations.register(newcomer(token_id)) == TOKEN_REFUSED
    assert len(rows(url, JOINS)) == 1


async def test_revoking_a_spent_token_refuses_the_key_that_spent_it_too(storage: Storage) -> None:
    asked = newcomer(await minted(storage))
    await storage.join.registrations.register(asked)
    await storage.join.tokens.revoke(asked.token_id)
    assert await storage.join.registrations.register(asked) == TOKEN_REFUSED


async def test_a_name_belongs_to_one_live_join_and_a_refusal_spends_no_token(storage: Storage) -> None:
    asked = newcomer(await minted(storage))
    holder = (await registered(storage, name=asked.name)).join_id
    assert await storage.join.registrations.register(asked) == NAME_TAKEN
    await approved(storage, holder)
    assert await storage.join.registrations.register(asked) == NAME_TAKEN
    await storage.join.registrations.reject(holder, "no")
    outcome = await storage.join.registrations.register(asked)
    assert isinstance(outcome, Registered)
    assert outcome.new


async def test_of_many_at_once_one_gets_the_name(storage: Storage, url: str, audit_file: Path) -> None:
    asked = [newcomer(await minted(storage), name="one") for _ in range(10)]
    async with open_storage(url, audit_file) as other:
        outcomes = await asyncio.gather(
            *(
                each.join.registrations.register(each_asked)
                for each, each_asked in zip([storage, other] * 5, asked, strict=True)
            )
        )
    assert sorted(isinstance(outcome, Registered) for outcome in outcomes) == [False] * 9 + [True]
    assert outcomes.count(NAME_TAKEN) == 9


async def test_the_name_of_an_overdue_join_is_free_and_its_own_key_has_nothing_left(storage: Storage, url: str) -> None:
    asked = newcomer(await minted(storage))
    first = await storage.join.registrations.register(asked)
    assert isinstance(first, Registered)
    alter(url, first.registration.join_id, expires_at=0)
    assert await storage.join.registrations.register(asked) == TOKEN_REFUSED
    await registered(storage, name=asked.name)
    assert await states(storage, first.registration.join_id) == [("expired", None)]


async def test_the_database_itself_refuses_a_second_live_name_turn_token_and_approval(
    storage: Storage, url: str
) -> None:
    join_id = await joining(storage)
    [row] = rows(url, JOINS)
    free = {"join_id": (1).to_bytes(16).hex(), "token_id": await minted(storage), "name": "free"}
    fine = dict(row._mapping) | {"in_turn": False, "approval": None} | free
    fine |= {name: sa.Uuid().python_type(fine[name]) for name in ("join_id", "token_id")}
    for taken in ({"name": row.name}, {"in_turn": True}, {"token_id": row.token_id}, {"approval": row.approval}):
        with pytest.raises(sa.exc.IntegrityError), writing(url) as connection:
            connection.execute(JOINS.insert().values(fine | taken))
    with writing(url) as connection:
        connection.execute(JOINS.insert().values(fine | {"name": row.name, "ended_at": 1}))
    assert (await standing(storage, join_id)).state == "joining"


async def test_approving_gives_the_turn_at_once_where_nobody_has_it_and_a_place_else(storage: Storage) -> None:
    first, second, third = [(await registered(storage)).join_id for _ in range(3)]
    assert [(each.state, each.position) for each in (await approved(storage, third), await approved(storage, first))]
    assert await states(storage, first, second, third) == [("approved", 1), ("pending", None), ("joining", 0)]
    granted = await standing(storage, third)
    assert granted.approved_at is not None
    assert granted.turn_started_at == granted.approved_at
    assert (await standing(storage, first)).turn_started_at is None


async def test_the_order_is_that_of_approval_whatever_the_clock_said(storage: Storage, url: str) -> None:
    await joining(storage)
    first, second = [(await registered(storage)).join_id for _ in range(2)]
    await approved(storage, second)
    alter(url, second, approved_at=2**42)
    await approved(storage, first)
    assert await states(storage, second, first) == [("approved", 1), ("approved", 2)]


async def test_what_was_approved_stays_as_it_is(storage: Storage, url: str) -> None:
    for state in ("approved", "joining", "joined"):
        join_id = await in_state(storage, url, state)
        before = await standing(storage, join_id)
        other = await storage.join.registrations.approve(join_id, role="control", address="elsewhere.example")
        assert other == before
        for live in await storage.join.registrations.list(state=None, limit=9):
            await storage.join.registrations.reject(live.join_id, "over")
        await keep(storage)


async def test_approving_may_give_another_role_and_address(storage: Storage) -> None:
    join_id = (await registered(storage)).join_id
    outcome = await storage.join.registrations.approve(join_id, role="storage", address="elsewhere.example")
    assert isinstance(outcome, Registration)
    assert (outcome.role, outcome.address) == ("storage", "elsewhere.example")


async def test_a_role_or_address_that_another_live_join_has_cannot_be_given(storage: Storage) -> None:
    other = await registered(storage, role="control", address="taken.example")
    join_id = (await registered(storage, role="control", address="taken.example")).join_id

    async def approve(**asked: Any) -> Any:
        return await storage.join.registrations.approve(join_id, **({"role": None, "address": None} | asked))

    def refused(*fields: str) -> Refused:
        return Refused(Refusal.APPROVAL_REFUSED, fields=fields)

    assert await approve(role="control") == refused("role")
    assert await approve(address="taken.example") == refused("address")
    assert await approve(role="control", address="taken.example") == refused("role", "address")
    assert await approve(role="storage", address="taken.example") == refused("address")
    assert await states(storage, join_id) == [("pending", None)]
    await storage.join.registrations.reject(other.join_id, "no")
    assert isinstance(await approve(role="control", address="taken.example"), Registration)


async def test_an_ended_join_is_neither_approved_nor_rejected_nor_certified(storage: Storage, url: str) -> None:
    ended: tuple[JoinState, ...] = ("rejected", "failed", "expired")
    for state in ended:
        join_id = await in_state(storage, url, state)
        before = await standing(storage, join_id)
        conflict = Refused(Refusal.STATE_CONFLICT, state)
        assert await storage.join.registrations.approve(join_id, role=None, address=None) == conflict
        assert await storage.join.registrations.reject(join_id, "no") == conflict
        assert await storage.join.registrations.renew(join_id) == Refused(Refusal.ENDED, state)
        assert await standing(storage, join_id) == before


async def test_an_overdue_join_counts_as_expired_wherever_it_is_asked_for(storage: Storage, url: str) -> None:
    expired: list[Any] = []
    for ask in (
        lambda join_id: storage.join.registrations.approve(join_id, role=None, address=None),
        lambda join_id: storage.join.registrations.reject(join_id, "no"),
        storage.join.registrations.renew,
        lambda join_id: report(storage, join_id),
    ):
        join_id = (await registered(storage)).join_id
        alter(url, join_id, expires_at=0)
        expired.append(await ask(join_id))
        assert await states(storage, join_id) == [("expired", None)]
    conflict, ended = Refused(Refusal.STATE_CONFLICT, "expired"), Refused(Refusal.ENDED, "expired")
    assert expired == [conflict, conflict, ended, ended]


async def test_a_join_that_is_rejected_before_its_turn_is_rejected(storage: Storage, url: str) -> None:
    for state in ("pending", "approved"):
        join_id = await in_state(storage, url, state)
        outcome = await storage.join.registrations.reject(join_id, "not \x00 today")
        assert isinstance(outcome, Registration)
        assert (outcome.state, outcome.position) == ("rejected", None)
        assert outcome.failure == Failure(None, "not \x00 today")
        assert outcome.ended_at is not None
        assert await storage.join.registrations.get(join_id) == outcome


async def test_a_join_that_is_rejected_in_its_turn_fails_and_is_taken_out(storage: Storage) -> None:
    join_id, waiting = await joining(storage), (await registered(storage)).join_id
    await approved(storage, waiting)
    await report(storage, join_id, step("raft:control", "done"), step("services", "running"))
    outcome = await storage.join.registrations.reject(join_id, "aborted")
    assert isinstance(outcome, Registration)
    assert (outcome.state, outcome.failure) == ("failed", Failure("services", "aborted"))
    assert await raft_states(storage, join_id) == ["removing", "absent"]
    assert await states(storage, waiting) == [("approved", 1)]
    await storage.join.rafts.removed(join_id, "control")
    assert await states(storage, waiting) == [("joining", 0)]


async def test_a_joined_node_is_not_rejected_but_may_renew_its_certificate(storage: Storage, url: str) -> None:
    join_id = await in_state(storage, url, "joined")
    assert await storage.join.registrations.reject(join_id, "no") == Refused(Refusal.STATE_CONFLICT, "joined")
    alter(url, join_id, certificate_expires_at=0)
    renewed = await storage.join.registrations.renew(join_id)
    assert isinstance(renewed, int)
    assert renewed % 1000 == 0
    assert (await standing(storage, join_id)).certificate_expires_at == renewed


async def test_an_unknown_join_is_none(storage: Storage) -> None:
    registrations = storage.join.registrations
    for unknown in UNKNOWN:
        assert await registrations.get(unknown) is None
        assert await registrations.identity(unknown) is None
        assert await registrations.approve(unknown, role=None, address=None) is None
        assert await registrations.reject(unknown, "no") is None
        assert await registrations.renew(unknown) is None


async def test_joins_are_listed_oldest_first_with_a_limit_and_by_state(storage: Storage) -> None:
    made = [await registered(storage) for _ in range(5)]
    assert await storage.join.registrations.list(state=None, limit=100) == made
    assert await storage.join.registrations.list(state=None, limit=2) == made[:2]
    await storage.join.registrations.reject(made[1].join_id, "no")
    await approved(storage, made[3].join_id)
    await approved(storage, made[2].join_id)
    pending = await storage.join.registrations.list(state="pending", limit=100)
    assert pending == [made[0], made[4]]
    [queued] = await storage.join.registrations.list(state="approved", limit=100)
    assert (queued.join_id, queued.position) == (made[2].join_id, 1)
    assert await storage.join.registrations.list(state="joined", limit=100) == []


async def test_what_happens_to_a_join_is_audited(storage: Storage, url: str) -> None:
    before = len(rows(url, AUDIT))
    join_id = await joining(storage, rafts=())
    await report(storage, join_id, step("services", "running"), step("services", "done"))
    await report(storage, join_id)
    await storage.join.registrations.renew(join_id)
    await storage.join.registrations.reject(join_id, "x" * 5000)
    told = [(row.action, json.loads(row.body)) for row in rows(url, AUDIT)[before:]]
    assert [action for action, _ in told] == [
        "join-token.minted",
        "join.registered",
        "join.approved",
        "join.turn-begun",
        "join.step",
        "join.certificate-renewed",
        "join.failed",
        "join.turn-ended",
    ]
    assert told[4][1] == {"step": "services", "status": "done"}
    assert told[6][1] == {"step": None, "reason": "x" * 1000}
    assert {row.subject for row in rows(url, AUDIT)[before + 1 :]} == {join_id}
