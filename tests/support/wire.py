"""HTTP/1.1 byte by byte: what a client library would mend, refuse or add can be sent, and what comes back is kept."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeAlias

PATIENCE_SECONDS: Final = 30.0
# How much of what is sent is kept until its answer has come.
KEPT_BYTES: Final = 65_536

Fields: TypeAlias = Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes]]
# What becomes of each answer that came whole: the port, the bytes that were sent for it, and the answer.
Listening: TypeAlias = Callable[[int, bytes, "Answer"], None]
# What is done to a connected socket before the first byte of HTTP.
Wrap: TypeAlias = Callable[[socket.socket], socket.socket]


def plain(connected: socket.socket) -> socket.socket:
    """Leave a connection as it is."""
    return connected


def tls(context: ssl.SSLContext) -> Wrap:
    """Make a connection one of TLS to a server on this machine."""
    return lambda connected: context.wrap_socket(connected, server_hostname="127.0.0.1")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; field names are in lower case, in the order in which they came."""

    status_line: str
    fields: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def status(self) -> int:
        """The status code."""
        return int(self.status_line.split(" ")[1])

    def header(self, name: str) -> str | None:
        """The value of a field, None where it is absent; fails where it is repeated."""
        values = [value for field, value in self.fields if field == name.lower()]
        assert len(values) < 2, f"{name} is repeated"
        return values[0] if values else None

    @property
    def run(self) -> str:
        """The id of the run that the answer is about."""
        run = self.header("X-Coordinator-Run-Id")
        assert run is not None, self
        return run

    @property
    def json(self) -> Any:
        """The value of the body."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem, "" for a success."""
        return str(self.json["code"]) if self.header("Content-Type") == "application/problem+json" else ""

    @property
    def bare(self) -> tuple[str, list[tuple[str, str]], bytes]:
        """What two answers of one kind have in common: all but the date and the trace id."""
        identity = self.header("X-Request-Id")
        assert identity
        fields = [field for field in self.fields if field[0] not in {"date", "x-request-id"}]
        return self.status_line, fields, self.body.replace(identity.encode(), b"")

    @property
    def outcome(self) -> tuple[int, str]:
        """The status, and the code of a problem or ""."""
        return self.status, self.code


def _unheard(_: int, __: bytes, ___: Answer) -> None:
    pass


class Listeners:
    """Who is told of every answer."""

    heard: Listening = staticmethod(_unheard)


class ConnectionEnded(AssertionError):
    """The server ended the connection where an answer was to come."""


class Wire:
    """One connection, to 127.0.0.1 and from `source`, which is any address of the loopback.

    Where `buffer` is given, about so many bytes can come before they are read.
    """

    def __init__(self, port: int, wrap: Wrap = plain, *, source: str = "127.0.0.1", buffer: int | None = None) -> None:
        connected = socket.socket()
        connected.settimeout(PATIENCE_SECONDS)
        if buffer is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        try:
            connected.bind((source, 0))
            connected.connect(("127.0.0.1", port))
        except OSError:
            connected.close()
            raise
        # As every HTTP client has it: the last piece of a request does not wait for the others to be confirmed.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = wrap(connected)
        self._port = port
        self._sent = b""
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        if len(self._sent) < KEPT_BYTES:
            self._sent += data
        self.socket.sendall(data)

    def read(self, method: str = "GET") -> Answer:
        """Return the next answer, which is one to a request with this method."""
        head = self.read_head()
        answer = head if method == "HEAD" else replace(head, body=self._body(dict(head.fields)))
        self.heard(answer)
        return answer

    def heard(self, answer: Answer) -> None:
        """Tell of an answer that came whole, or of which the rest was read apart, to whoever keeps account of them."""
        Listeners.heard(self._port, self._sent, answer)
        self._sent = _after_the_first(self._sent)

    def read_head(self) -> Answer:
        """Return the next answer without its body, which may be one that `read_chunk` reads."""
        while b"\r\n\r\n" not in self._received:
            self._more()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        fields = tuple((name.lower(), value) for name, _, value in (line.partition(": ") for line in lines))
        return Answer(status_line, fields, b"")

    def read_chunk(self) -> bytes:
        """Return the next chunk of a body that comes in chunks, b"" for its end."""
        while b"\r\n" not in self._received:
            self._more()
        size, _, self._received = self._received.partition(b"\r\n")
        chunk = self._take(int(size, 16) + 2)
        assert chunk.endswith(b"\r\n")
        return chunk[:-2]

    def _body(self, fields: Mapping[str, str]) -> bytes:
        return self._take(int(fields.get("content-length", 0)))

    def _take(self, length: int) -> bytes:
        while len(self._received) < length:
            self._more()
        taken, self._received = self._received[:length], self._received[length:]
        return taken

    def _more(self) -> None:
        more = self.socket.recv(65_536)
        if not more:
            raise ConnectionEnded(self._received)
        self._received += more

    def ended(self) -> bool:
        """Wait for the server to end the connection; False where it sends anything more."""
        return not self._received and not self.socket.recv(1)


def message(
    method: str, target: str | bytes, fields: Fields = (), body: bytes | None = None, chunks: Iterable[bytes] = ()
) -> bytes:
    """Return a request as bytes: with `body` under Content-Length, or with `chunks`, each as one chunk."""
    lines = [b" ".join([method.encode(), _bytes(target), b"HTTP/1.1"]), b"Host: 127.0.0.1"]
    lines += [
        name.encode() + b": " + _bytes(value)
        for name, value in (fields.items() if isinstance(fields, Mapping) else fields)
    ]
    parts = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
    if parts:
        lines.append(b"Transfer-Encoding: chunked")
        body = b"".join([*parts, b"0\r\n\r\n"])
    elif body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def send(port: int, request: bytes, wrap: Wrap = plain, *, source: str = "127.0.0.1") -> Answer:
    """Send one request on a connection of its own."""
    with Wire(port, wrap, source=source) as wire:
        wire.write(request)
        return wire.read(request.partition(b" ")[0].decode())


def send_at_once(
    port: int, requests: Sequence[bytes], wrap: Wrap = plain, *, source: str = "127.0.0.1"
) -> list[Answer]:
    """Send requests that all become whole at the same moment, each on a connection of its own."""
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(port, wrap, source=source)) for _ in requests]
        for wire, request in zip(wires, requests, strict=True):
            wire.write(request[:-1])
        for wire, request in zip(wires, requests, strict=True):
            wire.write(request[-1:])
        return [wire.read(request.partition(b" ")[0].decode()) for wire, request in zip(wires, requests, strict=True)]


def _after_the_first(sent: bytes) -> bytes:
    """Return what was sent after the request that has been answered."""
    head, end, rest = sent.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *([0-9]{1,9})(?:\r|$)", head, re.IGNORECASE)
    if length:
        return rest[int(length[1]) :]
    if re.search(rb"\r\ntransfer-encoding:", head, re.IGNORECASE):
        return rest.partition(b"\r\n0\r\n\r\n")[2]
    return rest if end else b""


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("ascii")
