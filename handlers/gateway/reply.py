"""The way of an answer to the client: each carries its request id, none is lost to a body that nobody wants."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.types import Message, Send

from handlers.gateway.exchange import FAULT, ClientLeft, Exchange

# So much of an unwanted body is dropped before the connection ends. Closing at once would reset it, and the answer
# could be lost (RFC 9112, section 9.6).
LINGER_BYTES: Final = 1_048_576
LINGER_SECONDS: Final = 1.0

# A rest this short is left to the server, which drops it and keeps the connection.
SHORT_BODY: Final = 65_536

CLOSE: Final = (b"connection", b"close")

_ENDING: Final = frozenset({b"expect", b"transfer-encoding"})


class Reply:
    """Stands for `send` while one request is answered, and notes the status and the end of the answer."""

    __slots__ = ("_close", "_exchange", "_send", "ended", "status")

    def __init__(self, exchange: Exchange, send: Send) -> None:
        self._exchange = exchange
        self._send = send
        self._close = False
        self.status = 0
        self.ended: float | None = None

    async def __call__(self, message: Message) -> None:
        """Pass on one message of the answer."""
        if message["type"] == "http.response.start":
            self._start(message)
        elif not message.get("more_body", False):
            await self._end(message)
            return
        await self._send(message)

    def _start(self, message: Message) -> None:
        self.status = message["status"]
        headers = [*message["headers"], (b"x-request-id", self._exchange.trace_id.encode())]
        if self._exchange.more_body:
            self._close = CLOSE in headers
            if not self._close and ends_connection(self._exchange):
                self._close = True
                headers.append(CLOSE)
        message["headers"] = headers

    async def _end(self, message: Message) -> None:
        if self._close:
            await self._send({**message, "more_body": True})
            self.ended = time.perf_counter()
            await self._drop_body()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)
        self.ended = self.ended or time.perf_counter()

    async def _drop_body(self) -> None:
        dropped = 0
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while self._exchange.more_body and dropped <= LINGER_BYTES:
                    dropped += len((await self._exchange.receive())["body"])
        except (TimeoutError, ClientLeft):
            return


def ends_connection(exchange: Exchange) -> bool:
    """Tell whether the connection has to end with an answer that came before the whole request.

    The rest may be long, or never come (RFC 9110, section 10.1.1), or the client wants the end by itself.
    """
    if FAULT in exchange.scope or exchange.scope["http_version"] == "1.0" or exchange.announced > SHORT_BODY:
        return True
    return any(
        name in _ENDING or (name == b"connection" and b"close" in value.lower()) for name, value in exchange.headers
    )
