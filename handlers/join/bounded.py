"""How another server is asked: with a bound on its answer, so that whatever it sends, it cannot fill our memory."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Final

import httpx

_PLAIN: Final = "identity"


class Bounded(httpx.AsyncBaseTransport):
    """Takes answers of at most `limit` bytes, and none that is encoded: a few bytes may stand for any number of them.

    What is more, or encoded, raises httpx.RemoteProtocolError. It uses no proxy of the environment's.
    """

    def __init__(self, limit: int, tls: ssl.SSLContext | bool) -> None:
        """`tls` says whom to trust: what a context does, or by True the public authorities."""
        self._limit = limit
        self._inner = httpx.AsyncHTTPTransport(verify=tls, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request that asks for a plain answer."""
        request.headers["Accept-Encoding"] = _PLAIN
        response = await self._inner.handle_async_request(request)
        if response.headers.get("Content-Encoding", _PLAIN).lower() != _PLAIN:
            await response.aclose()
            raise httpx.RemoteProtocolError("the answer is encoded, which was not asked for")
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - what an asynchronous transport gives
        response.stream = _BoundedStream(response.stream, self._limit)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            size += len(piece)
            if size > self._limit:
                raise httpx.RemoteProtocolError(f"the answer has more than {self._limit} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
