"""The ledger: rafts whose membership is kept here, as the embedded default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from storage.committer import one_by_one
from storage.identifiers import parse
from storage.join.records import from_json, to_json
from storage.readers import Readers
from storage.statements import table
from storage.tables import LedgerMemberRow
from storage.transaction import Transaction
from storage.writer import Writer

MEMBERS = table(LedgerMemberRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMember:
    """A member of a raft; a learner has no vote."""

    member_id: str
    name: str
    peer_urls: tuple[str, ...]
    learner: bool


class _Addition(NamedTuple):
    raft: str
    name: str
    peer_urls: tuple[str, ...]


class _Named(NamedTuple):
    raft: str
    member_id: UUID


class Ledger:
    """Every method raises Unavailable and Overloaded; those that write raise AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def members(self, raft: str) -> list[LedgerMember]:
        """The members of a raft in the order in which they were added."""
        return await self._readers.read(lambda connection: _members(connection, raft))

    async def add(self, raft: str, name: str, peer_urls: Sequence[str]) -> LedgerMember:
        """Add a learner; where a learner has these peer URLs already, it is that one."""
        return await self._writer.submit(_add_many, _Addition(raft, name, tuple(peer_urls)))

    async def promote(self, raft: str, member_id: str) -> bool:
        """Give a member its vote, and take out older ones of its name and peer URLs; False where this id has none."""
        found = parse(member_id)
        return found is not None and await self._writer.submit(_promote_many, _Named(raft, found))

    async def remove(self, raft: str, member_id: str) -> bool:
        """Take a member out; False where there is none of this id."""
        found = parse(member_id)
        return found is not None and await self._writer.submit(_remove_many, _Named(raft, found))


def _members(connection: sa.Connection, raft: str) -> list[LedgerMember]:
    query = sa.select(MEMBERS).where(MEMBERS.c.raft == raft).order_by(MEMBERS.c.member_id)
    return [_member(row) for row in connection.execute(query)]


def _member(row: sa.Row[Any]) -> LedgerMember:
    return LedgerMember(
        member_id=str(row.member_id), name=row.name, peer_urls=tuple(from_json(row.peer_urls)), learner=row.learner
    )


def _add(transaction: Transaction, addition: _Addition) -> LedgerMember:
    raft, name, peer_urls = addition
    urls, connection = to_json(peer_urls), transaction.connection
    at_urls = MEMBERS.c.raft == raft, MEMBERS.c.peer_urls == urls
    there = connection.execute(sa.select(MEMBERS).where(*at_urls, MEMBERS.c.learner)).first()
    if there is not None:
        return _member(there)
    member_id = UUID(transaction.run_ids.take(transaction.now))
    connection.execute(MEMBERS.insert().values(raft=raft, member_id=member_id, name=name, peer_urls=urls, learner=True))
    return LedgerMember(member_id=str(member_id), name=name, peer_urls=peer_urls, learner=True)


def _promote(transaction: Transaction, named: _Named) -> bool:
    connection = transaction.connection
    member = connection.execute(sa.select(MEMBERS.c.name, MEMBERS.c.peer_urls).where(*_row(named))).first()
    if member is None:
        return False
    alike = MEMBERS.c.raft == named.raft, MEMBERS.c.name == member.name, MEMBERS.c.peer_urls == member.peer_urls
    connection.execute(MEMBERS.delete().where(*alike, MEMBERS.c.member_id != named.member_id))
    connection.execute(MEMBERS.update().where(*_row(named)).values(learner=False))
    return True


def _remove(transaction: Transaction, named: _Named) -> bool:
    return transaction.connection.execute(MEMBERS.delete().where(*_row(named))).rowcount > 0


_add_many, _promote_many, _remove_many = one_by_one(_add), one_by_one(_promote), one_by_one(_remove)


def _row(named: _Named) -> tuple[sa.ColumnElement[bool], ...]:
    return MEMBERS.c.raft == named.raft, MEMBERS.c.member_id == named.member_id
