from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator

import httpx
import pytest

from handlers.join.bounded import Bounded

pytestmark = pytest.mark.anyio

LIMIT = 1000


@contextlib.asynccontextmanager
async def answering(fields: bytes, body: bytes, *, endless: bool = False) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Answer every request alike; gives the URL, and the headers of the requests."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 \r\nConnection: close\r\n" + fields + b"\r\n" + body)
            await writer.drain()
            while endless:
                writer.write(body)
                await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def ask(url: str) -> bytes:
    async with httpx.AsyncClient(transport=Bounded(LIMIT, tls=False)) as client:
        return (await client.get(url)).content


async def test_an_answer_within_the_bound_is_taken_whole() -> None:
    body = b"x" * LIMIT
    async with answering(b"Content-Length: 1000\r\n", body) as (url, asked):
        assert await ask(url) == body
    assert b"Accept-Encoding: identity\r\n" in asked[0]


@pytest.mark.parametrize("fields", [b"Content-Length: 1001\r\n", b""], ids=["announced", "not announced"])
async def test_a_longer_one_is_not_read_to_its_end(fields: bytes) -> None:
    async with answering(fields, b"x" * (LIMIT + 1)) as (url, _):
        with pytest.raises(httpx.RemoteProtocolError, match="more than 1000 bytes"):
            await ask(url)


async def test_one_without_an_end_has_one_here() -> None:
    async with answering(b"", b"x" * 65_536, endless=True) as (url, _):
        with pytest.raises(httpx.RemoteProtocolError, match="more than 1000 bytes"):
            await ask(url)


async def test_an_encoded_one_is_not_decoded() -> None:
    packed = gzip.compress(b"x" * 100_000)
    assert len(packed) < LIMIT
    async with answering(b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(packed), packed) as (url, _):
        with pytest.raises(httpx.RemoteProtocolError, match="encoded"):
            await ask(url)
