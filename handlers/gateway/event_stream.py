"""An answer that goes on: server-sent events, until their source ends or the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from starlette.types import Send

from handlers.gateway.exchange import CONNECTION, Connection, Exchange

# A client that has lost the connection tries again after so many milliseconds.
OPENING: Final = b": gatehouse\n\nretry: 2000\n\n"
# Others have their turn once a client was sent so much, a chunk counting as its bytes and so many beside.
TURN_BYTES: Final = 65_536
_CHUNK_BYTES: Final = 1_024


@dataclass(frozen=True, slots=True)
class EventStream:
    """An answer whose body comes chunk by chunk, each sent once the client has taken most of what came before."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    chunks: AsyncIterator[bytes]

    async def send(self, exchange: Exchange, send: Send) -> None:
        """Send the answer to its end; raises what `chunks` raises, and then the answer has no end.

        Whatever happens, what `chunks` holds is given back before this returns, if it is a generator.
        """
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
            if exchange.method != "HEAD":
                await self._send_body(exchange, send)
            await send({"type": "http.response.body"})
        finally:
            if isinstance(self.chunks, AsyncGenerator):
                await self.chunks.aclose()

    async def _send_body(self, exchange: Exchange, send: Send) -> None:
        """Send chunks until there is none, or the client has left: nobody need try to send to it to find that out."""
        sending = asyncio.create_task(self._send_chunks(exchange.scope.get(CONNECTION), send))
        leaving = asyncio.create_task(exchange.left())
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sent = sending.done()
            for task in (sending, leaving):
                task.cancel()
            await asyncio.wait({sending, leaving})
        # Unless it was cancelled here it tells what it has failed by.
        if sent or not sending.cancelled():
            sending.result()

    async def _send_chunks(self, connection: Connection | None, send: Send) -> None:
        await send({"type": "http.response.body", "body": OPENING, "more_body": True})
        turn = 0
        async for chunk in self.chunks:
            if connection is not None:
                await connection.pass_on(_framed(chunk))
            else:
                # A test transport has none.
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            turn += len(chunk) + _CHUNK_BYTES
            if turn >= TURN_BYTES:
                turn = 0
                # Neither the source nor a client that has left need ever make this wait.
                await asyncio.sleep(0)


@lru_cache(maxsize=8)
def _framed(chunk: bytes) -> bytes:
    """Return a chunk with its framing (RFC 9112, section 7.1), made once for many clients that are sent the same."""
    return b"%x\r\n%b\r\n" % (len(chunk), chunk)
