"""Runs a listener over the small documents on a real socket, in a thread of its own."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, cast

import uvloop
from starlette.types import ASGIApp

from handlers.gateway.faults import Api
from handlers.gateway.listener import Listener
from handlers.gateway.pages import document_pages, metrics_page
from handlers.gateway.pressure import Pressure
from handlers.gateway.server import Bound, Server, bind
from handlers.gateway.telemetry import Metrics, RequestLog
from tests.handlers.gateway.small_api import JOIN_CONTRACT, SHOP_CONTRACT, TOKEN, Shop, small_apis
from tests.support.wire import PATIENCE_SECONDS, Answer, Fields, Wire, message, send

OPERATOR: Final[Mapping[str, str]] = {"Authorization": f"Bearer {TOKEN}"}
JSON: Final[Mapping[str, str]] = {"Content-Type": "application/json"}
DOCUMENTS: Final[Mapping[str, bytes]] = {
    "shop": json.dumps(SHOP_CONTRACT).encode(),
    "join": json.dumps(JOIN_CONTRACT).encode(),
}


def new_listener(
    name: str, apis: Sequence[Api], metrics: Metrics, request_log: RequestLog, pressure: Pressure | None = None
) -> Listener:
    """Return a listener with some documents and the pages beside them."""
    pages = document_pages(DOCUMENTS) | {"/metrics": metrics_page(metrics.render)}
    return Listener(name, apis, pages, metrics, request_log, pressure)


class Served:
    """One listener, of `apis` or the two small ones, or `app` in its place, from `with` to the end of the block."""

    def __init__(
        self,
        name: str = "control",
        tls: ssl.SSLContext | None = None,
        app: ASGIApp | None = None,
        apis: Sequence[Api] = (),
        pressure: Pressure | None = None,
    ) -> None:
        self.shop = Shop()
        self.metrics = Metrics()
        self.log = io.StringIO()
        self.request_log = RequestLog(self.log)
        self._socket = bind("127.0.0.1", 0)
        self.port: int = self._socket.getsockname()[1]
        listener = app or new_listener(name, apis or small_apis(self.shop), self.metrics, self.request_log, pressure)
        if app is not None:
            app.door = None  # type: ignore[attr-defined]
        self.server = Server(Bound(cast("Listener", listener), self._socket, tls))
        self.loop: asyncio.AbstractEventLoop
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._serve()))

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._started.set()
        await self.server.serve(sockets=[self._socket])
        self.request_log.flush()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE_SECONDS)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop as a signal would have it, and wait until it is done."""
        self.server.should_exit = True
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def wire(self) -> Wire:
        """Open a connection without TLS."""
        return Wire(self.port)

    def ask(
        self,
        method: str,
        target: str | bytes,
        fields: Fields = (),
        body: bytes | None = None,
        chunks: Iterable[bytes] = (),
    ) -> Answer:
        """Send one request on a connection of its own."""
        return send(self.port, message(method, target, fields, body, chunks))

    def lines(self) -> list[dict[str, Any]]:
        """Return the request log so far, oldest line first."""
        if self._thread.is_alive():
            self._in_loop(self.request_log.flush)
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds that the listener's loop brings about."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < end
            self._in_loop(lambda: None)

    def _in_loop(self, call: Callable[[], None]) -> None:
        done = threading.Event()
        self.loop.call_soon_threadsafe(call)
        self.loop.call_soon_threadsafe(done.set)
        assert done.wait(PATIENCE_SECONDS)


def ends(wire: Wire) -> bool:
    """Wait for the server to end the connection; False where it sends anything more. A reset is an end, too."""
    try:
        return wire.ended()
    except (ConnectionError, ssl.SSLError):
        return True


def over_tls(context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> Any:
    """Return what makes a connection speak TLS, for Wire."""

    def wrap(plain: socket.socket) -> ssl.SSLSocket:
        return context.wrap_socket(plain, server_hostname="localhost", session=session)

    return wrap
