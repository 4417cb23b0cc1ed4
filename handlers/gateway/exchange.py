"""One request on its way: what the front notes of it, and what authenticators and the binder read from it."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from starlette.types import Message, Receive, Scope

EXCHANGE: Final = "gatehouse.exchange"
TARGET: Final = "gatehouse.target"
FAULT: Final = "gatehouse.fault"
CONNECTION: Final = "gatehouse.connection"

# Version 00 has 55 characters, later ones may go on after another hyphen.
_TRACEPARENT: Final = re.compile(
    rb"(?:00(?=.{53}\Z)|(?!00|ff)[0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)


class ClientLeft(Exception):
    """The client closed the connection before its request was whole; nobody is there to be answered."""


class BodyTooLarge(Exception):
    """More body bytes came than the operation takes."""


class BodyMalformed(Exception):
    """The body's transfer coding is broken (RFC 9112, section 7.1)."""


class Connection(Protocol):
    """What the scope has, under CONNECTION, of the connection that carries a request."""

    def hang_up(self) -> None:
        """End it soon, although the answer has no end."""

    async def pass_on(self, framed: bytes) -> None:
        """Send a chunk of the answer's body with its framing, once the client has taken most of what came before."""


class Exchange:
    """A request, from its first header to the last byte of its answer.

    `headers` are the header fields, names in lower case and values as the protocol has trimmed them; `hosts` is how
    many Host fields there are, `announced` the body's length where it is given. `principal` is whom the listener's
    guard has let in.
    """

    __slots__ = (
        "_body",
        "_receive",
        "announced",
        "headers",
        "hosts",
        "limit",
        "more_body",
        "operation",
        "path_parameters",
        "principal",
        "scope",
        "started",
        "trace_id",
    )

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.started = time.perf_counter()
        self.headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        self.hosts = 0
        self.announced = 0
        traceparents: list[bytes] = []
        for name, value in self.headers:
            if name == b"host":
                self.hosts += 1
            elif name == b"content-length":
                self.announced = _length(value)
            elif name == b"traceparent":
                traceparents.append(value)
        self.trace_id = trace_id(traceparents)
        self.operation = "-"
        self.principal: Any = None
        self.path_parameters: Mapping[str, str] = {}
        self.limit = 0
        self.more_body = True
        self._receive = receive
        self._body: bytes | None = None

    @property
    def method(self) -> str:
        """The method, as received."""
        method: str = self.scope["method"]
        return method

    @property
    def target(self) -> bytes:
        """The raw request target, with `?` and query as received (RFC 9112, section 3.2)."""
        return request_target(self.scope)

    @property
    def client(self) -> str:
        """The address of the connection's other end, without its port."""
        client: tuple[str, int] | None = self.scope.get("client")
        return client[0] if client else ""

    @property
    def tls(self) -> Mapping[str, Any] | None:
        """The ASGI TLS extension, where the connection has TLS."""
        extension: Mapping[str, Any] | None = self.scope.get("extensions", {}).get("tls")
        return extension

    async def body(self) -> bytes:
        """Return the whole body, read at the first call.

        Raises BodyTooLarge beyond `limit` bytes, announced or not, BodyMalformed, and ClientLeft where it was cut off.
        """
        if self._body is None:
            self._body = await self._read()
        return self._body

    async def _read(self) -> bytes:
        if self.announced > self.limit:
            raise BodyTooLarge
        chunks: list[bytes] = []
        size = 0
        while self.more_body:
            message = await self.receive()
            if FAULT in self.scope:
                raise BodyMalformed
            chunks.append(message["body"])
            size += len(message["body"])
            if size > self.limit:
                raise BodyTooLarge
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def receive(self) -> Message:
        """Return the next http.request message; raises ClientLeft instead of giving http.disconnect."""
        message = await self._receive()
        if message["type"] != "http.request":
            raise ClientLeft
        self.more_body = message.get("more_body", False)
        message.setdefault("body", b"")
        return message

    async def left(self) -> None:
        """Wait until the client has left; what it still sends is dropped."""
        with contextlib.suppress(ClientLeft):
            while True:
                await self.receive()

    async def hang_up(self) -> None:
        """End the connection without an end of the answer, by which the client sees that it is not whole."""
        connection: Connection | None = self.scope.get(CONNECTION)
        if connection is not None:
            connection.hang_up()
            await self.left()


def _length(value: bytes) -> int:
    """Return a length that the parser has checked; Python refuses to count thousands of leading zeros."""
    return int(value.lstrip(b"0") or b"0")


def request_target(scope: Scope) -> bytes:
    """Return the raw request target; where the server did not keep it (a test transport), it is put together again."""
    target: bytes | None = scope.get(TARGET)
    if target is not None:
        return target
    path: bytes = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


def trace_id(traceparents: Sequence[bytes]) -> str:
    """Return 32 lower-case hex: the trace id of a valid `traceparent` (W3C Trace Context, section 3.2), else random."""
    if len(traceparents) == 1:
        match = _TRACEPARENT.fullmatch(traceparents[0])
        if match:
            return match[1].decode()
    return f"{random.getrandbits(128) or 1:032x}"
