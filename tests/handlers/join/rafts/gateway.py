"""A stand-in for etcd's JSON gateway, to say what a real etcd says seldom or never."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, NamedTuple


class Says(NamedTuple):
    """One answer; the body is sent as it is."""

    status: int
    body: bytes


def says(value: Any) -> Says:
    """A success."""
    return Says(200, json.dumps(value).encode())


def refuses(status: int, code: int, message: str) -> Says:
    """A refusal as etcd words it; `code` is gRPC's."""
    return Says(status, json.dumps({"error": message, "message": message, "code": code}).encode())


LEARNER: Final = refuses(503, 14, "etcdserver: rpc not supported for learner")
UNHEALTHY: Final = refuses(503, 14, "etcdserver: unhealthy cluster")


class Gateway:
    """Answers each call by what `answers` has for it; to a call that it has None for it never answers."""

    def __init__(self, **answers: Says | None) -> None:
        self.answers: Mapping[str, Says | None] = {"alarm": says({}), **answers}
        self.asked: list[tuple[str, Any]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close the connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
            call = head.split(" ")[1].rpartition("/")[2]
            self.asked.append((call, json.loads(await reader.readexactly(length))))
            said = self.answers[call]
            if said is None:
                await reader.read()
            else:
                writer.write(
                    b"HTTP/1.1 %d \r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (said.status, len(said.body))
                )
                writer.write(said.body)
                await writer.drain()


@contextlib.asynccontextmanager
async def serving(gateway: Gateway, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve a gateway on loopback for as long as the block runs; gives its URL."""
    server = await asyncio.start_server(gateway.serve, "127.0.0.1", 0, ssl=tls)
    scheme, host = ("http", "127.0.0.1") if tls is None else ("https", "localhost")
    async with server:
        yield f"{scheme}://{host}:{server.sockets[0].getsockname()[1]}"
