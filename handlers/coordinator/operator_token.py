"""The operator's bearer token, the credential of everything that is not a product event or a probe."""

from __future__ import annotations

import hmac

from generated.coordinator.security import OperatorToken
from generated.runtime import Incoming


class OperatorTokens:
    """Authenticates `Authorization: Bearer <token>` (RFC 6750, section 2.1) by the one token of the state folder."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def authenticate(self, incoming: Incoming) -> OperatorToken | None:
        """Return the operator where the request has exactly one Authorization header with the token."""
        given = [value for name, value in incoming.headers if name == b"authorization"]
        if len(given) != 1:
            return None
        scheme, _, token = given[0].partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(b" "), self._token):
            return None
        return OperatorToken()
