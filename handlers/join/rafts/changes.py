"""The change that a join is due in a raft, made so that it may be cut off at any point and made again.

A raft and our storage share no transaction: what a change has done may not be stored, when the server ends between the
two. So each begins by looking at what is there. A member is ours if it has our peer URL and was not there before us.

Several servers may work on one database, each with a keeper of its own: what one of them is about to do, the others do
not know.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Final

from handlers.join.rafts.port import Member, Raft, RaftRefused, RaftSilent, RaftTrouble
from storage.join.rafts import Rafts, RaftWork, Turn
from storage.join.registrations import Peer

# The states of a raft in which something is to be done, and those in which that takes the join further.
FORWARD: Final = frozenset({"adding", "promoting"})
WANTED: Final = FORWARD | {"removing"}

_PAUSE_SECONDS: Final = 1.0


class Changes:
    """Makes changes; remembers the adds that it got no answer to, since such a member may turn up late."""

    def __init__(self, store: Rafts, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        # When an add was last asked for without an answer; what another process did, it may have done just now.
        self._asked: dict[tuple[str, str], float] = {}

    async def make(self, turn: Turn, work: RaftWork, raft: Raft) -> None:
        """Bring a raft where `work` says, or a step nearer; raises what the raft and storage raise.

        RaftRefused means that no waiting will bring the join further.
        """
        # What was asked for earlier joins is of no use any more, and another server may have ended their turns.
        self._asked = {key: at for key, at in self._asked.items() if key[0] == turn.join_id}
        if work.state == "adding":
            await self._add(turn, work, raft)
        elif work.state == "promoting":
            await self._promote(turn, work, raft)
        else:
            await self._remove(turn, work, raft)

    async def _add(self, turn: Turn, work: RaftWork, raft: Raft) -> None:
        members = await raft.members()
        if work.before is None:
            await self._store.note_before(turn.join_id, work.raft, [member.member_id for member in members])
            self._asked[turn.join_id, work.raft] = -math.inf
            # What stands as noted, another process may have noted: it is read before anything is added.
            return
        ours = _ours(members, turn, work, raft)
        if ours is None:
            # The list may have been long in coming, and the join have failed since.
            if not await self._store.note_before(turn.join_id, work.raft, work.before):
                return
            ours = await self._ask(turn, work, raft)
            members.append(ours)
        if not await self._store.added(turn.join_id, work.raft, ours.member_id, _peers(members, ours, turn.name)):
            await _take_back(raft, ours.member_id)

    async def _ask(self, turn: Turn, work: RaftWork, raft: Raft) -> Member:
        try:
            return await raft.add(turn.name, _urls(turn, raft))
        except RaftSilent:
            self._asked[turn.join_id, work.raft] = self._clock()
            raise

    async def _promote(self, turn: Turn, work: RaftWork, raft: Raft) -> None:
        if work.member_id is None:
            raise RaftRefused("it is no member that could become a voter")
        await raft.promote(work.member_id)
        await self._store.promoted(turn.join_id, work.raft)

    async def _remove(self, turn: Turn, work: RaftWork, raft: Raft) -> None:
        member_id = work.member_id
        if member_id is None and work.before is not None:
            member_id = await self._left_behind(turn, work, raft)
        if member_id is not None:
            await raft.remove(member_id)
        await self._store.removed(turn.join_id, work.raft)

    async def _left_behind(self, turn: Turn, work: RaftWork, raft: Raft) -> str | None:
        """Return the id of a member of which nothing is stored but that it was to be added."""
        asked = self._asked.setdefault((turn.join_id, work.raft), self._clock())
        may_be_late = self._clock() < asked + raft.late_seconds
        urls = _urls(turn, raft)
        for member in await raft.members():
            if _share(member.peer_urls, urls) and member.member_id not in (work.before or ()):
                return member.member_id
        if may_be_late:
            raise RaftTrouble("the member may still turn up: its add was not answered")
        return None


async def _take_back(raft: Raft, member_id: str) -> None:
    """Remove a member that came when another server had found the join out of the raft, and let its turn end."""
    while True:
        try:
            await raft.remove(member_id)
        except RaftTrouble:
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return


def _urls(turn: Turn, raft: Raft) -> tuple[str, ...]:
    return turn.peer_urls or raft.peer_urls(turn.address)


def _ours(members: Sequence[Member], turn: Turn, work: RaftWork, raft: Raft) -> Member | None:
    """Return the member that this join is, if it is one; raises RaftRefused where another has its URL for itself."""
    found = None
    for member in members:
        if _share(member.peer_urls, _urls(turn, raft)):
            if member.member_id not in (work.before or ()):
                found = member
            elif raft.one_at_a_url:
                raise RaftRefused(f"the peer URL is that of member {member.member_id}, which was there before")
    return found


def _share(some: Sequence[str], others: Sequence[str]) -> bool:
    """Tell whether two members have a URL in common, whose scheme and host are the same in capitals."""
    return not {url.lower() for url in some}.isdisjoint(url.lower() for url in others)


def _peers(members: Sequence[Member], ours: Member, name: str) -> list[Peer]:
    """Return what etcd's --initial-cluster wants: each URL with a name that no other member has.

    A member without a name, or with one that is taken, bears its id: etcd goes by the URLs. One with our name and URLs
    is who this node was before.
    """
    names = {ours.member_id: name}
    before = name, ours.peer_urls
    present = [each for each in members if each == ours or (each.name, each.peer_urls) != before]
    for member in present:
        taken = not member.name or member.name in names.values()
        names.setdefault(member.member_id, member.member_id if taken else member.name)
    return [Peer(names[member.member_id], url) for member in present for url in member.peer_urls]
