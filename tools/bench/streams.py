"""Load from many readers of one stream: a thread that takes what comes and notes when, and looks at it afterwards.

While the clock runs nothing is deciphered or parsed: a load that takes its own time for that would measure itself. Then
every stream has to be the first one's bytes, so that only that one need be understood.
"""

import re
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final, NamedTuple

import orjson

from tools.bench.emitter import WRITTEN_DIGITS
from tools.bench.servers import HOST, BenchError

EVENTS: Final = "/v1/installer/install/events"
OPENING: Final = b": gatehouse\n\nretry: 2000\n\n"
PATIENCE_SECONDS: Final = 60.0

# The last chunk of a body, which has no trailers (RFC 9112, section 7.1); data has no CR.
_END: Final = b"0\r\n\r\n"
_FRAME: Final = re.compile(rb"id: (\d+)\nevent: ([a-z]+)\ndata: ([^\r\n]*)\n\n")
_BUFFER_BYTES: Final = 1 << 20
_BUFFER: Final = memoryview(bytearray(_BUFFER_BYTES))
# Where nothing comes for so long, it is looked at what has come.
_QUIET_SECONDS: Final = 0.05


class Frame(NamedTuple):
    """An event as it stands in a stream, and where in the body it ends."""

    id: int
    type: str
    data: bytes
    end: int

    @property
    def committed(self) -> float:
        """The event's `at`, in milliseconds since 1970."""
        return datetime.fromisoformat(orjson.loads(self.data)["at"]).timestamp() * 1e3

    @property
    def written(self) -> float:
        """When the command wrote the line, in milliseconds since 1970."""
        return int(orjson.loads(self.data)["line"][:WRITTEN_DIGITS]) / 1e3


class Chunk(NamedTuple):
    """Where data of a chunk ends: in the body, and in what was received."""

    in_body: int
    received: int


class Reader:
    """A connection, and what came over it: `ends` is how much had come at each of `times`, nanoseconds since 1970.

    While the clock runs it is only kept, encrypted as it comes; what has come is known once it is deciphered.
    """

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=HOST)
        self._taken: list[tuple[int, bytes]] = []
        self._broken = ""
        self.pieces: list[bytes] = []
        self.ends: list[int] = []
        self.times: list[int] = []
        self.ended = False
        self._shake_hands()

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.socket.sendall(self._outgoing.read())
                if not self._incoming.write(self.socket.recv(_BUFFER_BYTES)):
                    raise BenchError("a connection ended amid its handshake") from None
            else:
                self.socket.sendall(self._outgoing.read())
                return

    def ask(self, code: str, after: int) -> None:
        """Ask for what follows on an event."""
        head = f"GET {EVENTS}?after={after} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {code}\r\n\r\n"
        self._tls.write(head.encode())
        self.socket.sendall(self._outgoing.read())
        self.socket.setblocking(False)

    def take(self) -> bool:
        """Keep what has come; False where nothing will come any more."""
        try:
            count = self.socket.recv_into(_BUFFER)
        except BlockingIOError:
            return True
        except OSError as error:
            self._broken = str(error)
            return False
        if not count:
            self._broken = "it has no end"
            return False
        self._taken.append((time.time_ns(), bytes(_BUFFER[:count])))
        return True

    def decipher(self) -> None:
        """Make pieces of what was taken; raises BenchError where the connection has ended before the stream."""
        for at, encrypted in self._taken:
            self._incoming.write(encrypted)
            if piece := b"".join(self._deciphered()):
                self.times.append(at)
                self.pieces.append(piece)
                self.ends.append(len(piece) + (self.ends[-1] if self.ends else 0))
        self._taken.clear()
        self.ended = b"".join(self.pieces[-len(_END) :]).endswith(_END)
        if self._broken and not self.ended:
            raise BenchError(f"a stream was broken off: {self._broken}")

    def _deciphered(self) -> Iterator[bytes]:
        try:
            while data := self._tls.read(_BUFFER_BYTES):
                yield data
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            self._broken = str(error)
        else:
            self._broken = "its session was ended"

    @property
    def opened(self) -> bool:
        """Whether the stream has begun; the whole answer where that is not its beginning."""
        return self.ended or OPENING in b"".join(self.pieces)

    def body(self) -> tuple[bytes, list[Chunk]]:
        """The body, and where each of its chunks ends; raises BenchError for another answer than a stream."""
        received = b"".join(self.pieces)
        head, _, _ = received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 ") or b"chunked" not in head.lower():
            raise BenchError(f"no stream, but {received[:300]!r}")
        data: list[bytes] = []
        chunks: list[Chunk] = []
        place, length = len(head) + 4, 0
        while True:
            start = received.index(b"\r\n", place) + 2
            size = int(received[place : start - 2], 16)
            if not size:
                return b"".join(data), chunks
            data.append(received[start : start + size])
            length += size
            chunks.append(Chunk(length, start + size))
            place = start + size + 2

    def arrivals(self, chunks: Sequence[Chunk], frames: Sequence[Frame]) -> Iterator[float]:
        """When the last byte of each frame came, in milliseconds since 1970."""
        chunk = piece = 0
        for frame in frames:
            while chunks[chunk].in_body < frame.end:
                chunk += 1
            received = chunks[chunk].received - (chunks[chunk].in_body - frame.end)
            while self.ends[piece] < received:
                piece += 1
            yield self.times[piece] / 1e6


@contextmanager
def readers(port: int, context: ssl.SSLContext, count: int) -> Iterator[list[Reader]]:
    """So many connections, until the block ends."""
    opened: list[Reader] = []
    try:
        for _ in range(count):
            opened.append(Reader(port, context))  # noqa: PERF401 - those that were opened are closed whatever happens
        yield opened
    finally:
        for reader in opened:
            reader.socket.close()


def take_until(wanted: Callable[[Reader], bool], all_readers: Sequence[Reader]) -> float:
    """Take what comes until each reader has what is wanted; raises BenchError where that takes too long.

    Returns the processor time, in seconds, of looking at what has come, which is no part of the load.
    """
    deadline, looking = time.monotonic() + PATIENCE_SECONDS, 0.0
    with selectors.DefaultSelector() as selector:
        for reader in all_readers:
            selector.register(reader.socket, selectors.EVENT_READ, reader)
        while True:
            ready = selector.select(_QUIET_SECONDS)
            for key, _ in ready:
                if not key.data.take():
                    selector.unregister(key.fileobj)
            if not ready:
                began = time.process_time()
                done = _have(wanted, all_readers)
                looking += time.process_time() - began
                if done:
                    return looking
            if time.monotonic() > deadline:
                raise BenchError(f"the streams did not end within {PATIENCE_SECONDS:g} s")


def _have(wanted: Callable[[Reader], bool], all_readers: Sequence[Reader]) -> bool:
    for reader in all_readers:
        reader.decipher()
        # That of the others can wait: what comes meanwhile would be taken late.
        if not wanted(reader):
            return False
    return True


def understood(all_readers: Sequence[Reader], after: int) -> tuple[list[Frame], list[list[Chunk]]]:
    """The frames that all readers have alike, in order from `after` on, and each reader's chunks.

    Raises BenchError where streams differ, or one is no stream of events without gaps.
    """
    first, chunks = all_readers[0].body()
    every = [chunks]
    for reader in all_readers[1:]:
        body, chunks = reader.body()
        if body != first:
            raise BenchError("readers of the same stream have got different bytes")
        every.append(chunks)
    return frames(first, after), every


def frames(body: bytes, after: int) -> list[Frame]:
    """The events of a stream; raises BenchError where there is anything else, or their ids do not follow on `after`."""
    if not body.startswith(OPENING):
        raise BenchError(f"a stream begins with {body[:60]!r}")
    place, found = len(OPENING), []
    while match := _FRAME.match(body, place):
        place = match.end()
        found.append(Frame(int(match[1]), match[2].decode(), match[3], place))
    if place != len(body):
        raise BenchError(f"a stream has {body[place : place + 60]!r}")
    if [frame.id for frame in found] != list(range(after + 1, after + 1 + len(found))):
        raise BenchError("the ids of a stream have gaps")
    return found
