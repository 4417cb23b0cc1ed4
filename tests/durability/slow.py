"""Clients that never finish what they began, all at once and in a thread of their own."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from typing import Self

HEAD = b"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@dataclass(frozen=True, slots=True)
class Slow:
    """How one client behaves: what it sends at first, and what it repeats five times a second."""

    first: bytes
    drip: bytes


SILENT = Slow(b"", b"")
HEADER_STOPS = Slow(HEAD + b"X-Slow: ", b"")
HEADER_DRIPS = Slow(HEAD + b"X-Slow: ", b"a")
HEADERS_DRIP = Slow(HEAD, b"X: y\r\n")
BODY_STOPS = Slow(HEAD + b"Content-Length: 60000\r\n\r\n{", b"")
BODY_DRIPS = Slow(HEAD + b"Content-Length: 60000\r\n\r\n{", b" ")
CHUNKS_DRIP = Slow(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n")
KINDS = (SILENT, HEADER_STOPS, HEADER_DRIPS, HEADERS_DRIP, BODY_STOPS, BODY_DRIPS, CHUNKS_DRIP)
DRIP_SECONDS = 0.2


class SlowClients:
    """So many clients of each kind; they end when the server ends them."""

    def __init__(self, port: int, of_each_kind: int) -> None:
        self._port = port
        self._of_each_kind = of_each_kind
        self._clients: dict[socket.socket, Slow] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._drip)

    def __enter__(self) -> Self:
        for kind in KINDS * self._of_each_kind:
            client = socket.create_connection(("127.0.0.1", self._port))
            client.sendall(kind.first)
            client.setblocking(False)
            self._clients[client] = kind
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for client in self._clients:
            client.close()

    @property
    def left(self) -> int:
        """How many the server has not ended yet."""
        return len(self._clients)

    def _drip(self) -> None:
        while not self._stopping.wait(DRIP_SECONDS):
            for client, kind in list(self._clients.items()):
                if _ended(client, kind.drip):
                    del self._clients[client]
                    client.close()


def _ended(client: socket.socket, drip: bytes) -> bool:
    """Send something more; whether the server has ended the connection."""
    try:
        client.send(drip)
        return not client.recv(65_536)
    except BlockingIOError:
        return False
    except OSError:
        return True
