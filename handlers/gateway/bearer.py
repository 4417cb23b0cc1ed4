"""Bearer tokens (RFC 6750, section 2.1): how one is read, and the operator's, which the state folder holds."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Generic

from generated.runtime import Incoming, PrincipalT


def bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the token of the one Authorization header; None where there is none, more, or one of another scheme."""
    given = [value for name, value in headers if name == b"authorization"]
    if len(given) != 1:
        return None
    scheme, _, token = given[0].partition(b" ")
    return token.strip(b" ") if scheme.lower() == b"bearer" else None


class Operator(Generic[PrincipalT]):
    """Authenticates whoever bears the operator's token, as the principal that an API has for that."""

    def __init__(self, token: str, principal: PrincipalT) -> None:
        self._token = token.encode()
        self._principal = principal

    async def authenticate(self, incoming: Incoming) -> PrincipalT | None:
        """Return the principal where the request has exactly one Authorization header with the token."""
        token = bearer_token(incoming.headers)
        return self._principal if token is not None and hmac.compare_digest(token, self._token) else None
