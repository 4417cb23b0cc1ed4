from __future__ import annotations

import asyncio
import hashlib
import re

import pytest

from generated.join.security import JoinToken
from handlers.join.certificates import Authority
from handlers.join.join_token import JoinTokens, new_secret, secret_hash
from storage.join.tokens import UsableToken
from tests.handlers.join.asking import exchange

# The same in each run: it is in the names of tests.
SECRET = "c2VjcmV0IG9mIDMyIGJ5dGVzLCBmb3IgdGVzdHMgISE"


class Stored:
    """One token in a database, and the hashes that were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def find(self, hashed: str) -> UsableToken | None:
        self.asked.append(hashed)
        return UsableToken("the token's id", None) if hashed == secret_hash(SECRET.encode()) else None


def ask(founder: Authority, *values: str | bytes, stored: Stored | None = None) -> JoinToken | None:
    given = [(b"authorization", each if isinstance(each, bytes) else each.encode()) for each in values]
    return asyncio.run(JoinTokens(founder, (stored or Stored()).find).authenticate(exchange(given)))


def test_a_secret_has_32_bytes_and_is_stored_as_its_hash() -> None:
    assert re.fullmatch("[A-Za-z0-9_-]{43}", new_secret())
    assert new_secret() != new_secret()
    assert secret_hash(SECRET.encode()) == "sha256:" + hashlib.sha256(SECRET.encode()).hexdigest()


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "Bearer  {} ", "Bearer {}.{}", "BEARER {}.{}"])
def test_a_token_is_known_by_its_secret_and_as_a_whole(form: str, founder: Authority) -> None:
    assert ask(founder, form.format(SECRET, founder.token_pin)) == JoinToken(token_id="the token's id")


def test_another_secret_is_not_known(founder: Authority) -> None:
    stored, other = Stored(), new_secret()
    assert ask(founder, f"Bearer {other}", stored=stored) is None
    assert stored.asked == [secret_hash(other.encode())]


def test_the_token_of_another_authority_is_not_known(founder: Authority, stranger: Authority) -> None:
    assert ask(founder, f"Bearer {SECRET}.{stranger.token_pin}") is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        SECRET,
        f"Basic {SECRET}",
        f"Bearer {SECRET}.",
        f"Bearer .{SECRET}",
        f"Bearer {SECRET}.x",
        f"Bearer {SECRET}x",
        f"Bearer {SECRET[:-1]}",
        f"Bearer {SECRET} {SECRET}",
        f"Bearer {SECRET[:-1]}=",
        f"Bearer {SECRET[:-1]}ü".encode("latin-1"),
        f"Bearer {SECRET[:-1]}\N{FULLWIDTH DIGIT ONE}",
        b"Bearer " + b"\xff" * 43,
        b"\xff",
        b"Bearer \x00",
    ],
)
def test_anything_else_is_refused_without_a_look(value: str | bytes, founder: Authority) -> None:
    stored = Stored()
    assert ask(founder, value, stored=stored) is None
    assert stored.asked == []


def test_no_header_and_two_are_refused(founder: Authority) -> None:
    right = f"Bearer {SECRET}"
    assert ask(founder) is None
    for values in ((right, right), (right, "Bearer x"), ("Bearer x", right)):
        assert ask(founder, *values) is None
