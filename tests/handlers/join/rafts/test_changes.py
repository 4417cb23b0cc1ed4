from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from handlers.join.rafts.changes import WANTED, Changes
from handlers.join.rafts.ledger import LedgerRaft
from handlers.join.rafts.port import Member, RaftRefused, RaftSilent, RaftTrouble
from storage.database import Storage
from storage.errors import Unavailable
from storage.join.rafts import Rafts, RaftWork, Turn
from storage.join.registrations import Peer, RaftPlan
from tests.handlers.join.rafts.memory import FOUNDER, MemoryRaft
from tests.storage.join import work

pytestmark = pytest.mark.anyio

RAFTS = (RaftPlan("store", "etcd"),)
OURS = "m-2"
FORWARD = ("members", "add", "promote", "note_before", "added", "promoted")
BACK = ("members", "remove", "removed")


class Killed(Exception):
    """The server ends here."""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A join in its turn, and a server that may be killed at any call and begins anew."""

    def __init__(self, storage: Storage, raft: MemoryRaft, join_id: str) -> None:
        self.storage = storage
        self.raft = raft
        self.join_id = join_id
        self.clock = Clock()
        self.start()

    @classmethod
    async def joining(cls, storage: Storage, raft: MemoryRaft, **changes: Any) -> Node:
        return cls(storage, raft, await work.joining(storage, rafts=RAFTS, **changes))

    def start(self) -> None:
        self.changes = Changes(self.storage.join.rafts, self.clock)

    async def report(self, *steps: tuple[str, str]) -> None:
        outcome = await work.report(self.storage, self.join_id, *(work.step(name, status) for name, status in steps))
        assert outcome == work.RAFTS_CHANGED

    async def change(self) -> bool:
        """Make one change; False where none is wanted."""
        turn, wanted = await self.wanted()
        if turn is None or wanted is None or turn.join_id != self.join_id or wanted.state not in WANTED:
            return False
        await self.changes.make(turn, wanted, self.raft)
        return True

    async def wanted(self) -> tuple[Turn | None, RaftWork | None]:
        turn = await self.storage.join.rafts.turn()
        return turn, None if turn is None else turn.rafts[0]

    async def settle(self) -> None:
        while await self.change():
            pass

    async def make(self, changes: Changes) -> None:
        """Let this keeper make the change that is due."""
        turn, wanted = await self.wanted()
        assert turn is not None
        assert wanted is not None
        await changes.make(turn, wanted, self.raft)

    async def making(self, call: str) -> asyncio.Task[None]:
        """Begin the change that is due; its call to the raft waits until a test lets it go on."""
        self.raft.hangs[call] = asyncio.Event()
        calls = self.raft.calls.count(call)
        task = asyncio.create_task(self.make(self.changes))
        while self.raft.calls.count(call) == calls:  # noqa: ASYNC110 - the raft has no event for a call
            await asyncio.sleep(0.001)
        return task

    async def record(self) -> Any:
        return (await work.standing(self.storage, self.join_id)).rafts[0]


@pytest.fixture
def raft() -> MemoryRaft:
    return MemoryRaft()


@pytest.fixture
async def node(storage: Storage, raft: MemoryRaft) -> Node:
    return await Node.joining(storage, raft)


def kill_at(monkeypatch: pytest.MonkeyPatch, raft: MemoryRaft, call: str, *, done: bool) -> None:
    """Let the next such call be the last one of its process, before or after it has done its work."""
    made: Callable[..., Awaitable[Any]] = getattr(raft if hasattr(raft, call) else Rafts, call)
    struck = False

    async def strike(*arguments: Any) -> Any:
        nonlocal struck
        first, struck = not struck, True
        if first and not done:
            raise Killed
        answer = await made(*arguments)
        if first:
            raise Killed
        return answer

    monkeypatch.setattr(raft if hasattr(raft, call) else Rafts, call, strike)


async def settle_though_killed(node: Node) -> None:
    with pytest.raises(Killed):
        await node.settle()
    node.start()
    await node.settle()


async def test_a_node_is_a_learner_until_it_completes_and_then_a_voter(node: Node, raft: MemoryRaft) -> None:
    await node.report(("raft:store", "running"))
    await node.settle()
    assert raft.learners == {FOUNDER.member_id: False, OURS: True}
    record = await node.record()
    assert (record.state, record.member_id) == ("learner", OURS)
    name, address = (await work.standing(node.storage, node.join_id)).name, raft.present[1].peer_urls[0]
    assert record.peers == (Peer("founder", "http://founder.example:2380"), Peer(name, address))
    await node.report(("raft:store", "done"), ("services", "done"), ("complete", "done"))
    await node.settle()
    assert raft.learners == {FOUNDER.member_id: False, OURS: False}
    assert (await work.standing(node.storage, node.join_id)).state == "joined"


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("call", FORWARD)
async def test_a_server_that_is_killed_on_the_way_in_goes_on_where_it_was(
    node: Node, raft: MemoryRaft, monkeypatch: pytest.MonkeyPatch, call: str, done: bool
) -> None:
    kill_at(monkeypatch, raft, call, done=done)
    await node.report(*((step, "done") for step in ("raft:store", "services", "complete")))
    await settle_though_killed(node)
    assert (await work.standing(node.storage, node.join_id)).state == "joined"
    assert raft.learners == {FOUNDER.member_id: False, OURS: False}
    assert [change for change, _ in raft.changes].count("add") == 1


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("call", FORWARD)
async def test_a_node_that_fails_while_the_server_is_down_is_out_whatever_was_stored_of_it(
    node: Node, raft: MemoryRaft, monkeypatch: pytest.MonkeyPatch, call: str, done: bool
) -> None:
    kill_at(monkeypatch, raft, call, done=done)
    await node.report(("raft:store", "done"), ("complete", "running"))
    with pytest.raises(Killed):
        await node.settle()
    await node.report(("services", "failed"))
    node.start()
    await node.settle()
    assert (await node.record()).state == "removed"
    assert raft.present == [FOUNDER]


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("call", BACK)
@pytest.mark.parametrize("answered", [False, True])
async def test_a_server_that_is_killed_on_the_way_out_goes_on_where_it_was(
    node: Node, raft: MemoryRaft, monkeypatch: pytest.MonkeyPatch, call: str, done: bool, answered: bool
) -> None:
    if not answered:
        raft.lost["add"] = RaftSilent("no answer")
    await node.report(("raft:store", "running"))
    await node.change()
    if answered:
        await node.change()
    else:
        with pytest.raises(RaftSilent):
            await node.change()
    await node.report(("services", "failed"))
    if answered and call == "members":
        # Nobody has to be looked for whose id is known.
        calls = len(raft.calls)
        await node.settle()
        assert raft.calls[calls:] == ["remove"]
    else:
        kill_at(monkeypatch, raft, call, done=done)
        await settle_though_killed(node)
    assert (await node.record()).state == "removed"
    assert raft.present == [FOUNDER]
    assert await node.storage.join.rafts.turn() is None


@pytest.mark.parametrize("peer_url", ["http://founder.example:2380", "HTTP://Founder.Example:2380"])
async def test_a_node_with_the_founders_url_fails_and_the_founder_stays(
    storage: Storage, raft: MemoryRaft, peer_url: str
) -> None:
    node = await Node.joining(storage, raft, peer_urls=(peer_url,))
    await node.report(("raft:store", "running"))
    assert await node.change()
    with pytest.raises(RaftRefused, match="the peer URL is that of member m-founder, which was there before"):
        await node.change()
    await storage.join.rafts.refused(node.join_id, "store", "as it said")
    await node.settle()
    assert (await node.record()).state == "removed"
    assert raft.present == [FOUNDER]
    assert raft.changes == []


async def test_a_node_that_is_set_up_again_takes_the_place_of_its_old_self_in_the_ledger(storage: Storage) -> None:
    raft = LedgerRaft(storage.join.ledger, "store", 2380, "https")
    changes, url = Changes(storage.join.rafts, Clock()), "https://again.example:2380"
    for _ in range(2):
        join_id = await work.joining(storage, rafts=RAFTS, name="node", peer_urls=(url,))
        await work.report(
            storage, join_id, *(work.step(name, "done") for name in ("raft:store", "services", "complete"))
        )
        while (turn := await storage.join.rafts.turn()) is not None:
            await changes.make(turn, turn.rafts[0], raft)
        record = (await work.standing(storage, join_id)).rafts[0]
        assert (record.state, [peer.peer_url for peer in record.peers]) == ("voter", [url])
        assert [member.member_id for member in await raft.members()] == [record.member_id]


async def test_a_node_at_the_address_of_another_name_takes_nobodys_place_in_the_ledger(storage: Storage) -> None:
    raft = LedgerRaft(storage.join.ledger, "store", 2380, "https")
    changes, url = Changes(storage.join.rafts, Clock()), "https://shared.example:2380"
    for name in ("first", "second"):
        join_id = await work.joining(storage, rafts=RAFTS, name=name, peer_urls=(url,))
        await work.report(
            storage, join_id, *(work.step(step, "done") for step in ("raft:store", "services", "complete"))
        )
        while (turn := await storage.join.rafts.turn()) is not None:
            await changes.make(turn, turn.rafts[0], raft)
    assert [(member.name, member.learner) for member in await raft.members()] == [("first", False), ("second", False)]


async def test_a_member_that_left_and_came_again_under_another_join_is_ours(storage: Storage, raft: MemoryRaft) -> None:
    first = await Node.joining(storage, raft, peer_urls=("http://again.example:2380",))
    await first.report(("raft:store", "running"))
    await first.settle()
    await first.report(("services", "failed"))
    await first.settle()
    second = await Node.joining(storage, raft, peer_urls=("http://again.example:2380",))
    await second.report(("raft:store", "running"))
    await second.settle()
    assert raft.learners == {FOUNDER.member_id: False, "m-3": True}


async def test_a_member_that_was_asked_for_without_an_answer_is_awaited_before_the_turn_ends(storage: Storage) -> None:
    raft = MemoryRaft(late_seconds=10)
    node = await Node.joining(storage, raft)
    await node.report(("raft:store", "running"))
    assert await node.change()
    raft.trouble["add"] = RaftSilent("no answer")
    node.clock.now += 100
    with pytest.raises(RaftSilent):
        await node.change()
    await node.report(("services", "failed"))
    node.clock.now += 9
    with pytest.raises(RaftTrouble, match="may still turn up"):
        await node.change()
    turn, _ = await node.wanted()
    assert turn is not None
    raft.present.append(Member("m-late", "", raft.peer_urls(turn.address), learner=True))
    await node.settle()
    assert raft.present == [FOUNDER]
    assert (await node.record()).state == "removed"


async def test_a_member_that_was_asked_for_and_refused_is_not_awaited(storage: Storage) -> None:
    raft = MemoryRaft(late_seconds=10)
    node = await Node.joining(storage, raft)
    await node.report(("raft:store", "running"))
    assert await node.change()
    raft.trouble["add"] = RaftTrouble("too many learners")
    with pytest.raises(RaftTrouble):
        await node.change()
    await node.report(("services", "failed"))
    await node.settle()
    assert (await node.record()).state == "removed"


async def test_what_an_earlier_process_may_have_asked_for_is_awaited_too(storage: Storage) -> None:
    raft = MemoryRaft(late_seconds=10)
    node = await Node.joining(storage, raft)
    await node.report(("raft:store", "running"))
    assert await node.change()
    node.start()
    await node.report(("services", "failed"))
    with pytest.raises(RaftTrouble, match="may still turn up"):
        await node.change()
    node.clock.now += 10
    await node.settle()
    assert (await node.record()).state == "removed"


async def test_a_raft_that_was_never_asked_needs_none_of_this(node: Node, raft: MemoryRaft) -> None:
    raft.late_seconds = 10
    await node.report(("raft:store", "running"))
    await node.report(("services", "failed"))
    await node.settle()
    assert (await node.record()).state == "removed"
    assert raft.calls == []


async def test_an_add_that_ends_after_the_join_has_failed_is_undone(node: Node, raft: MemoryRaft) -> None:
    await node.report(("raft:store", "running"))
    assert await node.change()
    late = await node.making("add")
    await node.report(("services", "failed"))
    raft.hangs["add"].set()
    await late
    assert raft.learners[OURS]
    await node.settle()
    assert raft.present == [FOUNDER]
    assert (await node.record()).member_id == OURS


async def test_an_add_that_ends_after_another_server_has_ended_the_turn_is_undone(
    node: Node, raft: MemoryRaft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handlers.join.rafts.changes._PAUSE_SECONDS", 0.01)
    await node.report(("raft:store", "running"))
    assert await node.change()
    late = await node.making("add")
    await node.report(("services", "failed"))
    await node.make(Changes(node.storage.join.rafts, node.clock))
    assert (await node.record()).state == "removed"
    raft.trouble["remove"] = RaftTrouble("unhealthy")
    raft.hangs["add"].set()
    while raft.calls.count("remove") < 2:  # noqa: ASYNC110 - the raft has no event for a call
        await asyncio.sleep(0.001)
    del raft.trouble["remove"]
    await late
    assert raft.changes == [("add", OURS), ("remove", OURS)]
    assert raft.present == [FOUNDER]


async def test_what_another_server_may_be_adding_is_awaited(storage: Storage) -> None:
    raft = MemoryRaft(late_seconds=10)
    node = await Node.joining(storage, raft)
    await node.report(("raft:store", "running"))
    other = Changes(storage.join.rafts, node.clock)
    assert await node.change()
    node.clock.now += 100
    await node.report(("services", "failed"))
    with pytest.raises(RaftTrouble, match="may still turn up"):
        await node.make(other)
    node.clock.now += 10
    await node.make(other)
    assert (await node.record()).state == "removed"


async def test_nothing_is_added_once_the_join_has_failed_while_the_members_were_listed(
    node: Node, raft: MemoryRaft
) -> None:
    await node.report(("raft:store", "running"))
    assert await node.change()
    late = await node.making("members")
    await node.report(("services", "failed"))
    raft.hangs["members"].set()
    await late
    assert "add" not in raft.calls


async def test_peers_have_names_that_differ(storage: Storage, raft: MemoryRaft) -> None:
    raft.present += [
        Member("m-unnamed", "", ("http://b.example:2380",), learner=False),
        Member("m-alike", "founder", ("http://c.example:2380", "http://c.example:2381"), learner=False),
        Member("m-namesake", "node", ("http://d.example:2380",), learner=False),
    ]
    node = await Node.joining(storage, raft, name="node", peer_urls=("http://e.example:2380",))
    await node.report(("raft:store", "running"))
    await node.settle()
    assert [tuple(peer) for peer in (await node.record()).peers] == [
        ("founder", "http://founder.example:2380"),
        ("m-unnamed", "http://b.example:2380"),
        ("m-alike", "http://c.example:2380"),
        ("m-alike", "http://c.example:2381"),
        ("m-namesake", "http://d.example:2380"),
        ("node", "http://e.example:2380"),
    ]


async def test_a_change_that_is_not_stored_is_made_again(
    node: Node, raft: MemoryRaft, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: Any) -> None:
        raise Unavailable("away")

    await node.report(("raft:store", "running"))
    assert await node.change()
    with monkeypatch.context() as patched:
        patched.setattr(Rafts, "added", unavailable)
        for _ in range(2):
            with pytest.raises(Unavailable):
                await node.change()
    await node.settle()
    assert raft.learners == {FOUNDER.member_id: False, OURS: True}
