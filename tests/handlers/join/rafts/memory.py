"""A raft in memory that fails where a test wants it to."""

from __future__ import annotations

import asyncio
import itertools
from typing import Literal

from handlers.join.rafts.port import Member, RaftTrouble
from storage.join.states import RaftKind

FOUNDER = Member("m-founder", "founder", ("http://founder.example:2380",), learner=False)


class MemoryRaft:
    """Has one member from the beginning.

    A call raises what `trouble` has for it instead of doing its work, raises what `lost` has for it once that is done,
    and waits as long as `hangs` has it. Every call that changes something is in `changes`.
    """

    def __init__(self, name: str = "store", kind: RaftKind = "etcd", late_seconds: float = 0.0) -> None:
        self.name = name
        self.kind = kind
        self.late_seconds = late_seconds
        self.one_at_a_url = kind == "etcd"
        self.present = [FOUNDER]
        self.trouble: dict[str, Exception] = {}
        self.lost: dict[str, Exception] = {}
        self.hangs: dict[str, asyncio.Event] = {}
        self.calls: list[str] = []
        self.changes: list[tuple[Literal["add", "promote", "remove"], str]] = []
        self._ids = itertools.count(2)

    @property
    def learners(self) -> dict[str, bool]:
        """The id of each member and whether it is a learner."""
        return {member.member_id: member.learner for member in self.present}

    def peer_urls(self, address: str) -> tuple[str, ...]:
        return (f"http://{address}:2380",)

    async def members(self) -> list[Member]:
        await self._begin("members")
        return list(self.present)

    async def add(self, name: str, peer_urls: tuple[str, ...]) -> Member:
        await self._begin("add")
        if any(set(peer_urls) & set(member.peer_urls) for member in self.present):
            raise RaftTrouble("the peer URL exists already")
        member = Member(f"m-{next(self._ids)}", name, peer_urls, learner=True)
        self.present.append(member)
        self.changes.append(("add", member.member_id))
        self._end("add")
        return member

    async def promote(self, member_id: str) -> None:
        await self._begin("promote")
        self.present = [
            Member(each.member_id, each.name, each.peer_urls, each.learner and each.member_id != member_id)
            for each in self.present
        ]
        self.changes.append(("promote", member_id))
        self._end("promote")

    async def remove(self, member_id: str) -> None:
        await self._begin("remove")
        self.present = [each for each in self.present if each.member_id != member_id]
        self.changes.append(("remove", member_id))
        self._end("remove")

    async def close(self) -> None:
        pass

    async def _begin(self, call: str) -> None:
        self.calls.append(call)
        if call in self.hangs:
            await self.hangs[call].wait()
        if call in self.trouble:
            raise self.trouble[call]

    def _end(self, call: str) -> None:
        if call in self.lost:
            raise self.lost[call]
