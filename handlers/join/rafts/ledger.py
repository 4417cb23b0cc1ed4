"""A raft whose members stand in this server's own database."""

from __future__ import annotations

from typing import Final, Literal

from handlers.join.rafts.port import Member, RaftRefused, peer_url
from storage.join.ledger import Ledger, LedgerMember


class LedgerRaft:
    """The members of one raft of the ledger; beside what the port names, calls raise what storage raises."""

    kind: Final[Literal["ledger"]] = "ledger"
    late_seconds: Final = 0.0
    # A node that is set up again joins anew at its old address, and nobody else could take its old self out.
    one_at_a_url: Final = False

    def __init__(self, ledger: Ledger, name: str, peer_port: int, peer_scheme: str) -> None:
        self.name = name
        self._ledger = ledger
        self._peer_port = peer_port
        self._peer_scheme = peer_scheme

    def peer_urls(self, address: str) -> tuple[str, ...]:
        """Return the one URL of a member at `address`."""
        return (peer_url(self._peer_scheme, address, self._peer_port),)

    async def members(self) -> list[Member]:
        """Return the members."""
        return [_member(each) for each in await self._ledger.members(self.name)]

    async def add(self, name: str, peer_urls: tuple[str, ...]) -> Member:
        """Add a learner, which is in sync at once."""
        return _member(await self._ledger.add(self.name, name, peer_urls))

    async def promote(self, member_id: str) -> None:
        """Make a voter of a learner, in the place of an older one at its URLs; RaftRefused where it is no member."""
        if not await self._ledger.promote(self.name, member_id):
            raise RaftRefused("the member is not in the ledger")

    async def remove(self, member_id: str) -> None:
        """Remove a member."""
        await self._ledger.remove(self.name, member_id)

    async def close(self) -> None:
        """Do nothing: the database is closed by who opened it."""


def _member(of: LedgerMember) -> Member:
    return Member(of.member_id, of.name, tuple(of.peer_urls), of.learner)
