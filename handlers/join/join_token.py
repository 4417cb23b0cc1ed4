"""The credential of a newcomer: a token whose secret is stored as a hash alone."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from generated.join.security import JoinToken
from generated.runtime import Incoming
from handlers.gateway.bearer import bearer_token
from handlers.join.certificates import Authority
from storage.join.tokens import UsableToken

SECRET_BYTES: Final = 32

# The secret, and what the whole token has behind it: the pin of the authority. Each is 32 bytes in base64url.
_TOKEN: Final = re.compile(rb"([A-Za-z0-9_-]{43})(?:\.([A-Za-z0-9_-]{43}))?")


def new_secret() -> str:
    """Return a new secret, base64url without padding."""
    return secrets.token_urlsafe(SECRET_BYTES)


def secret_hash(secret: bytes) -> str:
    """Return what is stored of a secret: `sha256:` and 64 hex digits."""
    return f"sha256:{hashlib.sha256(secret).hexdigest()}"


class JoinTokens:
    """Authenticates whoever bears a usable join token, by its secret or as a whole."""

    def __init__(self, authority: Authority, stored: Callable[[str], Awaitable[UsableToken | None]]) -> None:
        """`stored` finds a usable token by the hash of its secret."""
        self._pin = authority.token_pin.encode()
        self._stored = stored

    async def authenticate(self, incoming: Incoming) -> JoinToken | None:
        """Return the newcomer where the request has exactly one Authorization header with a usable token.

        A token with the pin of another authority is another server's. Raises what finding a token raises.
        """
        match = _TOKEN.fullmatch(bearer_token(incoming.headers) or b"")
        if match is None or not hmac.compare_digest(match[2] or self._pin, self._pin):
            return None
        token = await self._stored(secret_hash(match[1]))
        return None if token is None else JoinToken(token_id=token.token_id)
