"""Join tokens: minted, revoked, and found by the hash of their secret; spending one is registrations.py's."""

from __future__ import annotations

import time
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from storage.committer import one_by_one
from storage.identifiers import hyphenated, parse
from storage.join.records import JOINS, maybe_json
from storage.readers import Readers
from storage.statements import table
from storage.tables import JoinTokenRow
from storage.transaction import Transaction
from storage.writer import Writer

TOKENS = table(JoinTokenRow)


@dataclass(frozen=True, slots=True)
class Minted:
    """A new token's id and end (epoch milliseconds)."""

    token_id: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class UsableToken:
    """A token that is good for a registration; `spent_pin` is the key whose live join has spent it already."""

    token_id: str
    spent_pin: str | None


@dataclass(frozen=True, slots=True)
class _Mint:
    secret_hash: str
    name: str | None
    ttl_seconds: int


class Tokens:
    """Every method raises Unavailable and Overloaded; those that write raise AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def mint(self, *, secret_hash: str, name: str | None, ttl_seconds: int) -> Minted:
        """Store a new token under its secret's hash, which no other token may have."""
        return await self._writer.submit(_mint_many, _Mint(secret_hash, name, ttl_seconds))

    async def revoke(self, token_id: str) -> bool:
        """Let a token count no longer; False where there is none of this id, also for text that is no UUID."""
        found = parse(token_id)
        return found is not None and await self._writer.submit(_revoke_many, found)

    async def find(self, secret_hash: str) -> UsableToken | None:
        """The token of this secret, unless it is revoked, spent by a join that has ended, or unspent and expired."""
        return await self._readers.read(lambda connection: _find(connection, secret_hash))


def _mint(transaction: Transaction, mint: _Mint) -> Minted:
    token_id = hyphenated(transaction.run_ids.take(transaction.now))
    expires_at = transaction.now + 1000 * mint.ttl_seconds
    transaction.connection.execute(
        TOKENS.insert().values(
            token_id=UUID(token_id),
            secret_hash=mint.secret_hash,
            name=maybe_json(mint.name),
            created_at=transaction.now,
            expires_at=expires_at,
        )
    )
    transaction.record("join-token.minted", token_id, {"expiresAt": expires_at, "name": mint.name})
    return Minted(token_id, expires_at)


def _revoke(transaction: Transaction, token_id: UUID) -> bool:
    token = transaction.connection.execute(sa.select(TOKENS.c.revoked_at).where(TOKENS.c.token_id == token_id)).first()
    if token is None:
        return False
    if token.revoked_at is None:
        revoked = TOKENS.update().where(TOKENS.c.token_id == token_id).values(revoked_at=transaction.now)
        transaction.connection.execute(revoked)
        transaction.record("join-token.revoked", str(token_id), {})
    return True


_mint_many, _revoke_many = one_by_one(_mint), one_by_one(_revoke)


def _find(connection: sa.Connection, secret_hash: str) -> UsableToken | None:
    now = time.time_ns() // 1_000_000
    token = connection.execute(
        sa.select(TOKENS.c.token_id, TOKENS.c.expires_at, JOINS.c.pin, JOINS.c.ended_at)
        .add_columns(sa.and_(JOINS.c.state == "pending", JOINS.c.expires_at <= now).label("overdue"))
        .select_from(TOKENS.outerjoin(JOINS, JOINS.c.token_id == TOKENS.c.token_id))
        .where(TOKENS.c.secret_hash == secret_hash, TOKENS.c.revoked_at.is_(None))
    ).first()
    if token is None or (token.expires_at <= now if token.pin is None else token.ended_at is not None or token.overdue):
        return None
    return UsableToken(str(token.token_id), token.pin)
