from __future__ import annotations

import hashlib
import re
import uuid
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.handlers.join.house import House, newcomer, outcome
from tools.authority import new_key

pytestmark = pytest.mark.anyio

TOKENS = "/v1/join/tokens"


@pytest.mark.parametrize(("order", "seconds"), [({}, 3600), ({"ttlSeconds": 60, "name": "rack 7, node 3"}, 60)])
async def test_a_token_is_shown_with_its_authority_and_its_end(
    order: dict[str, object], seconds: int, house: House
) -> None:
    answer = await house.operate("POST", TOKENS, order)
    told = answer.json()
    secret, _, pin = told["token"].partition(".")
    lasts = datetime.fromisoformat(told["expiresAt"]) - datetime.now().astimezone()
    assert answer.status_code == 201
    assert told.keys() == {"tokenId", "token", "caFingerprint", "expiresAt"}
    assert re.fullmatch("[A-Za-z0-9_-]{43}", secret)
    assert pin == house.app.authority.token_pin
    assert told["caFingerprint"] == house.app.authority.fingerprint
    assert uuid.UUID(told["tokenId"]).version == 7
    assert abs(lasts - timedelta(seconds=seconds)) < timedelta(seconds=30)


async def test_the_secret_is_stored_as_a_hash_alone(house: House, tmp_path: Path) -> None:
    secret = (await house.mint(name="a")).partition(".")[0]
    await house.app.storage.close()
    hashed = hashlib.sha256(secret.encode()).hexdigest().encode()
    assert stored_in(tmp_path, hashed)
    assert not stored_in(tmp_path, secret.encode())


def stored_in(folder: Path, content: bytes) -> bool:
    return any(content in file.read_bytes() for file in folder.iterdir())


async def test_an_order_that_is_not_as_documented_is_refused(house: House) -> None:
    orders: list[object] = [{"ttlSeconds": 59}, {"ttlSeconds": 604_801}, {"name": ""}, {"name": "\0"}, {"uses": 2}, []]
    for order in orders:
        assert outcome(await house.operate("POST", TOKENS, order)) == (400, "INVALID_INPUT"), order


async def test_a_revoked_token_registers_nobody_and_may_be_revoked_again(house: House) -> None:
    told = (await house.operate("POST", TOKENS, {})).json()
    for spelled in (told["tokenId"], told["tokenId"].upper()):
        assert (await house.operate("DELETE", f"{TOKENS}/{spelled}")).status_code == 204
    assert outcome(await house.register(told["token"], newcomer(new_key()))) == (401, "UNAUTHENTICATED")


async def test_a_token_that_there_is_not_cannot_be_revoked(house: House) -> None:
    for token_id in ("019d9079-e78a-7c31-8f02-6b1d4e9a5c77", "no-uuid", "%00", "%ff"):
        assert outcome(await house.operate("DELETE", f"{TOKENS}/{token_id}")) == (404, "NOT_FOUND"), token_id
