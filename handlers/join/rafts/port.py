"""What a raft is to a join: a list of members that is changed one member at a time.

Which change is due, and when one is tried again, is turns.py's matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from storage.join.states import RaftKind


class RaftTrouble(Exception):
    """The raft cannot do it now, and waiting may mend that; the text is for an operator."""


class RaftSilent(RaftTrouble):
    """No answer that tells what became of a change: it may have been made, or be made a little later."""


class RaftRefused(Exception):
    """The raft will not do it, however long one waits; the text is for an operator."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a raft; its name is empty until it has been started."""

    member_id: str
    name: str
    peer_urls: tuple[str, ...]
    learner: bool


class Raft(Protocol):
    """One configured raft. Each call raises RaftTrouble or RaftRefused, and may be made again after either."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> RaftKind: ...
    @property
    def late_seconds(self) -> float:
        """For how long after an `add` that was not answered the member may still turn up."""

    @property
    def one_at_a_url(self) -> bool:
        """Whether the raft takes no second member at a peer URL."""

    def peer_urls(self, address: str) -> tuple[str, ...]:
        """Return the URLs of a member at `address`, a host name or an IP address, that named none itself."""

    async def members(self) -> list[Member]:
        """Return the members, with every change that was made before the call."""

    async def add(self, name: str, peer_urls: tuple[str, ...]) -> Member:
        """Add a learner; raises RaftSilent where it may have become one all the same."""

    async def promote(self, member_id: str) -> None:
        """Make a voter of a learner that is in sync; one that is a voter already stays one."""

    async def remove(self, member_id: str) -> None:
        """Remove a member; one that is gone already is fine."""

    async def close(self) -> None:
        """Let go of connections."""


def peer_url(scheme: str, address: str, port: int) -> str:
    """Return a member's URL; an IPv6 address is put into brackets."""
    host = f"[{address}]" if ":" in address else address
    return f"{scheme}://{host}:{port}"
