from __future__ import annotations

import json

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from storage.errors import Unstorable
from storage.join.registrations import Registered
from storage.join.tokens import TOKENS, UsableToken
from tests.storage.join.work import PIN, alter, minted, newcomer, registered, writing
from tests.storage.work import digest, rows

pytestmark = pytest.mark.anyio

SECRET = digest("the secret")


def set_end(url: str, expires_at: int) -> None:
    with writing(url) as connection:
        connection.execute(TOKENS.update().values(expires_at=expires_at))


async def spent(storage: Storage, token_id: str) -> str:
    outcome = await storage.join.registrations.register(newcomer(token_id))
    assert isinstance(outcome, Registered)
    return outcome.registration.join_id


async def test_a_token_is_found_by_its_secret_alone(storage: Storage, url: str) -> None:
    token = await storage.join.tokens.mint(secret_hash=SECRET, name="rack \x00 4", ttl_seconds=60)
    await minted(storage)
    assert await storage.join.tokens.find(SECRET) == UsableToken(token.token_id, None)
    assert await storage.join.tokens.find(digest("another")) is None
    row = next(row for row in rows(url, TOKENS) if row.secret_hash == SECRET)
    assert (row.expires_at, row.expires_at - row.created_at) == (token.expires_at, 60_000)
    assert json.loads(row.name) == "rack \x00 4"


async def test_a_secret_belongs_to_one_token(storage: Storage) -> None:
    await minted(storage, secret_hash=SECRET)
    with pytest.raises(Unstorable):
        await minted(storage, secret_hash=SECRET)


async def test_a_token_is_of_no_use_after_its_end_unless_a_live_join_has_spent_it(storage: Storage, url: str) -> None:
    token_id = await minted(storage, secret_hash=SECRET, ttl_seconds=0)
    assert await storage.join.tokens.find(SECRET) is None
    await minted(storage, secret_hash=digest("another"), ttl_seconds=60)
    set_end(url, 2**42)
    join_id = await spent(storage, token_id)
    set_end(url, 0)
    assert await storage.join.tokens.find(SECRET) == UsableToken(token_id, PIN)
    await storage.join.registrations.reject(join_id, "no")
    assert await storage.join.tokens.find(SECRET) is None


async def test_a_token_is_of_no_use_once_its_join_is_overdue(storage: Storage, url: str) -> None:
    token_id = await minted(storage, secret_hash=SECRET)
    join_id = await spent(storage, token_id)
    alter(url, join_id, expires_at=0)
    assert await storage.join.tokens.find(SECRET) is None


async def test_a_revoked_token_is_of_no_use_to_anyone(storage: Storage) -> None:
    token_id = await minted(storage, secret_hash=SECRET)
    await spent(storage, token_id)
    assert await storage.join.tokens.revoke(token_id)
    assert await storage.join.tokens.find(SECRET) is None
    assert await storage.join.tokens.revoke(token_id)


async def test_revoking_what_is_no_token_tells_so(storage: Storage) -> None:
    join_id = (await registered(storage)).join_id
    for unknown in ("5d1f4a7e-3c52-7b90-8e61-0c2a9f47d813", "", "x", "\x00", join_id):
        assert not await storage.join.tokens.revoke(unknown)


async def test_minting_and_revoking_are_audited_once_and_without_the_secret(storage: Storage, url: str) -> None:
    token_id = await minted(storage, secret_hash=SECRET, name="rack")
    for _ in range(2):
        await storage.join.tokens.revoke(token_id)
    told = [(row.action, row.subject) for row in rows(url, AUDIT)[1:]]
    assert told == [("join-token.minted", token_id), ("join-token.revoked", token_id)]
    assert not any(SECRET in row.body for row in rows(url, AUDIT))
