"""A TCP proxy between a client and a server that may be away for a while, or whose answers are lost on the way."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final, Self

_CHUNK: Final = 65_536


class Proxy:
    """Listens on a port of its own; `port` is where the server is at present."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._losing = 0

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for each in self._open:
            _cut(each)
        for thread in self._threads:
            thread.join()
        for each in [self._listening, *self._open]:
            each.close()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"https://127.0.0.1:{self._listening.getsockname()[1]}"

    @property
    def losing(self) -> bool:
        """Whether an answer is still to be lost."""
        return self._losing > 0

    def lose_answer(self) -> None:
        """Cut, instead of handing it on, the connection on which the server answers next."""
        self._losing = 1

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._open.append(client)
                try:
                    server = socket.create_connection(("127.0.0.1", self.port), 10)
                except OSError:
                    _cut(client)
                    continue
                self._open.append(server)
                for way in ((client, server, False), (server, client, True)):
                    thread = threading.Thread(target=self._pump, args=way)
                    self._threads.append(thread)
                    thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        """Hand on what comes, until the end; then nothing goes either way any more."""
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                if answers and self.losing:
                    self._losing = 0
                    break
                target.sendall(data)
        _cut(source)
        _cut(target)


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
