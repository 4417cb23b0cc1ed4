"""The way of an answer to the client: each carries its request id, none is lost to a body that nobody wants."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import Message, Send

from handlers.gateway.exchange import ClientLeft, Exchange

# So much of an unwanted body is dropped before the connection ends. Closing at once would reset it, and the answer
# could be lost (RFC 9112, section 9.6).
LINGER_BYTES: Final = 1_048_576
LINGER_SECONDS: Final = 1.0

# A rest this short is left to the server, which drops it and keeps the connection.
SHORT_BODY: Final = 65_536


class Reply:
    """Stands for `send` while one request is answered, and notes the status for logs and metrics."""

    __slots__ = ("_close", "_exchange", "_send", "status")

    def __init__(self, exchange: Exchange, send: Send) -> None:
        self._exchange = exchange
        self._send = send
        self._close = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        """Pass on one message of the answer."""
        if message["type"] == "http.response.start":
            self._start(message)
        elif self._close and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._drop_body()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    def _start(self, message: Message) -> None:
        self.status = message["status"]
        headers = [*message["headers"], (b"x-request-id", self._exchange.trace_id.encode())]
        if self._exchange.more_body and _long_body(self._exchange):
            self._close = True
            headers.append((b"connection", b"close"))
        message["headers"] = headers

    async def _drop_body(self) -> None:
        dropped = 0
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while self._exchange.more_body and dropped <= LINGER_BYTES:
                    dropped += len((await self._exchange.receive())["body"])
        except (TimeoutError, ClientLeft):
            return


def _long_body(exchange: Exchange) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and int(value) > SHORT_BODY)
        for name, value in exchange.headers
    )
