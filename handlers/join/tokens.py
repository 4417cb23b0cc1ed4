"""The tag tokens: one-time tokens, of which only this first answer has the secret."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from generated.join import models
from generated.join.operations import mint_join_token as mint_op
from generated.join.operations import revoke_join_token as revoke_op
from handlers.gateway.times import rfc3339
from handlers.join.app import App
from handlers.join.join_token import new_secret, secret_hash

NO_TOKEN: Final = "There is no token with this id."  # noqa: S105 - a sentence.


async def mint_join_token(app: App, request: mint_op.Request) -> mint_op.Response:
    """Make a token: a secret, and the pin by which the newcomer knows this server."""
    order, secret = request.body, new_secret()
    minted = await app.storage.join.tokens.mint(
        secret_hash=secret_hash(secret.encode()),
        name=None if order.name is UNSET else order.name,
        ttl_seconds=order.ttl_seconds,
    )
    return mint_op.Created(
        body=models.MintedToken(
            token_id=minted.token_id,
            token=f"{secret}.{app.authority.token_pin}",
            ca_fingerprint=app.authority.fingerprint,
            expires_at=rfc3339(minted.expires_at),
        )
    )


async def revoke_join_token(app: App, request: revoke_op.Request) -> revoke_op.Response:
    """Let a token count no longer; one that is revoked already stays so."""
    if not await app.storage.join.tokens.revoke(request.token_id):
        raise revoke_op.NotFound(NO_TOKEN)
    return revoke_op.NoContent()
