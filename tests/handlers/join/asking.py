"""Requests as an authenticator sees them, without a server."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import Message

from handlers.gateway.exchange import Exchange


async def _nothing() -> Message:
    raise AssertionError("an authenticator of join reads no body")


def exchange(
    headers: Sequence[tuple[bytes, bytes]] = (),
    *,
    join_id: str = "",
    client: str = "127.0.0.1",
    chain: Sequence[str] | None = None,
) -> Exchange:
    """Return a request from `client`; `chain` is the client's certificate chain in PEM, None for no TLS."""
    scope = {
        "type": "http",
        "method": "POST",
        "headers": list(headers),
        "client": (client, 4711),
        "extensions": {} if chain is None else {"tls": {"client_cert_chain": list(chain)}},
    }
    made = Exchange(scope, _nothing)
    made.path_parameters = {"joinId": join_id}
    return made
