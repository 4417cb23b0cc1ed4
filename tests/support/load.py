"""Load: many requests over a few connections that are kept alive, and exactly which of them were answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import uvloop

from tests.support import wire
from tests.support.deliveries import Delivery
from tests.support.wire import Answer, Wire

CONNECTIONS: Final = 32
PATIENCE_SECONDS: Final = 60.0

# What became of each request, in the order of the requests; None where the connection ended before an answer.
Outcomes: TypeAlias = list[Answer | None]
Watch: TypeAlias = Callable[[int], None]


def deliveries(count: int) -> list[Delivery]:
    """Make new events, each in a delivery of its own."""
    return [Delivery() for _ in range(count)]


def signed(delivery: Delivery, key: bytes) -> bytes:
    """Return the request of a delivery at this moment."""
    return wire.message("POST", delivery.path, delivery.headers(key), delivery.body)


def send(
    port: int, requests: Sequence[bytes], *, connections: int = CONNECTIONS, watch: Watch = lambda _: None
) -> Outcomes:
    """Send requests, each once, with as many unanswered at any moment as there are connections.

    `watch` is called in the loop after each answer with how many there are by now. A connection that ends is not made
    again: what is left when none remains stays unanswered.
    """
    return uvloop.run(asend({port: requests}, connections=connections, watch=watch))[port]


async def asend(
    requests: Mapping[int, Sequence[bytes]], *, connections: int = CONNECTIONS, watch: Watch = lambda _: None
) -> dict[int, Outcomes]:
    """Send to several ports at once, to each what stands under it, over so many connections a port; see `send`."""
    rounds = {port: _Round(each, watch) for port, each in requests.items()}
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(each.run(port, connections) for port, each in rounds.items()))
    return {port: each.outcomes for port, each in rounds.items()}


@contextlib.contextmanager
def unanswered(port: int, requests: Sequence[bytes]) -> Iterator[list[Wire]]:
    """Send requests, each on a connection of its own that ends with the context, to a server that cannot answer yet.

    They have arrived when the context begins: the server answers another request that came after them.
    """
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(port)) for _ in requests]
        for each, request in zip(wires, requests, strict=True):
            each.write(request)
        assert wire.send(port, wire.message("GET", "/health")).status == 200
        yield wires


class _Round:
    def __init__(self, requests: Sequence[bytes], watch: Watch) -> None:
        self.outcomes: Outcomes = [None] * len(requests)
        self._numbered: Iterator[tuple[int, bytes]] = iter(enumerate(requests))
        self._watch = watch
        self._answered = 0

    async def run(self, port: int, connections: int) -> None:
        await asyncio.gather(*(self._connect(port) for _ in range(connections)))

    async def _connect(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(lambda: _Connection(self), "127.0.0.1", port)
        except ConnectionError:
            return
        await connection.ended

    def next(self) -> tuple[int, bytes] | None:
        return next(self._numbered, None)

    def answered(self, number: int, answer: Answer) -> None:
        self.outcomes[number] = answer
        self._answered += 1
        self._watch(self._answered)


class _Connection(asyncio.Protocol):
    """Sends one request after another until there are no more, or until the server ends the connection."""

    def __init__(self, load: _Round) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._load = load
        self._number = 0
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        answer = _answer(self._received)
        if answer is not None:
            self._received = b""
            self._load.answered(self._number, answer)
            self._send()

    def connection_lost(self, _: Exception | None) -> None:
        self.ended.set_result(None)

    def _send(self) -> None:
        following = self._load.next()
        if following is None:
            self._transport.close()
        else:
            self._number, request = following
            self._transport.write(request)


def _answer(received: bytes) -> Answer | None:
    """The one answer that `received` is, None while it is not whole."""
    head, ended, body = received.partition(b"\r\n\r\n")
    if not ended:
        return None
    status_line, *lines = head.decode("latin-1").split("\r\n")
    fields = tuple((name.lower(), value) for name, _, value in (line.partition(": ") for line in lines))
    whole = len(body) == int(dict(fields).get("content-length", 0))
    return Answer(status_line, fields, body) if whole else None
