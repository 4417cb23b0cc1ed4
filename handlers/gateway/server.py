"""Runs listeners: one uvicorn server each, in one loop, stopped together by SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import uvicorn

from handlers.gateway.listener import Listener
from handlers.gateway.protocol import HEADER_SECONDS, GatewayProtocol

# An answer that takes longer than this after the signal is cut off.
STOP_SECONDS: Final = 2
BACKLOG: Final = 2048


@dataclass(frozen=True, slots=True)
class Bound:
    """A listener with the socket that it accepts on, and its TLS context where it has one."""

    listener: Listener
    socket: socket.socket
    tls: ssl.SSLContext | None = None


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 takes a free one. Raises OSError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    opened.setblocking(False)
    return opened


class Server(uvicorn.Server):
    """One listener's server."""

    def __init__(self, bound: Bound) -> None:
        super().__init__(_config(bound))
        self._door = bound.listener.door

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `serve`: the last of several servers would take them from the others."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept on `sockets`; uvicorn's own would give a TLS handshake a minute."""
        loop = asyncio.get_running_loop()
        tls = self.config.ssl
        handshake = HEADER_SECONDS if tls else None
        self.servers = [
            await loop.create_server(self._protocol, sock=each, ssl=tls, ssl_handshake_timeout=handshake)
            for each in sockets or []
        ]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the connections; what was refused of late is told before the loop and its timers are gone."""
        await super().shutdown(sockets)
        if self._door is not None:
            self._door.tell()

    def _protocol(self) -> GatewayProtocol:
        protocol = GatewayProtocol(self.config, self.server_state, {})
        protocol.door = self._door
        return protocol


async def serve(bound: Sequence[Bound], on_stop: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; `on_stop` is called at the signal, before connections are closed."""
    servers = [Server(each) for each in bound]
    loop = asyncio.get_running_loop()

    def stop() -> None:
        on_stop()
        for server in servers:
            server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop)
    await asyncio.gather(*(server.serve(sockets=[each.socket]) for server, each in zip(servers, bound, strict=True)))


def _config(bound: Bound) -> uvicorn.Config:
    tls = bound.tls
    return uvicorn.Config(
        bound.listener,
        http=GatewayProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_context_factory=(lambda _config, _default: tls) if tls is not None else None,
    )
