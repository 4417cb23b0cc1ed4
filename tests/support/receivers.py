"""A real HTTP/1.1 receiver on loopback: it keeps every request byte by byte, and answers as a test tells it to."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, TypeAlias

PATIENCE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Received:
    """A request; `number` counts from 0 in the order of arrival, field names are in lower case and in their order."""

    number: int
    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a field, None where it is absent; fails where it is repeated."""
        values = [value for field_name, value in self.fields if field_name == name.lower()]
        assert len(values) < 2, f"{name} is repeated"
        return values[0] if values else None

    @property
    def key(self) -> str | None:
        """The idempotency key, None where there is none."""
        return self.header("Idempotency-Key")

    @property
    def json(self) -> Any:
        """The value of the body."""
        return json.loads(self.body)

    @property
    def command(self) -> tuple[str, str, tuple[tuple[str, str], ...], bytes]:
        """All of the request but when it came: two sendings of one command have the same."""
        return self.method, self.target, self.fields, self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer.

    `after` holds it back until that is set or the receiver ends. `late` holds it back until the caller has hung up.
    Where `cut` is given, the connection ends after so many bytes of the body, whatever Content-Length has promised.
    """

    status: int = 200
    fields: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    body: bytes = b"{}"
    after: threading.Event | None = None
    late: bool = False
    cut: int | None = None

    @property
    def head(self) -> bytes:
        """The bytes before the body."""
        # RFC 9110, 8.6: an answer 204 has no Content-Length.
        length = {} if self.status == 204 else {"Content-Length": str(len(self.body))}
        lines = [f"{name}: {value}" for name, value in ({**self.fields, **length}).items()]
        lines.insert(0, f"HTTP/1.1 {self.status} -")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


Answerer: TypeAlias = Callable[[Received], Reply]

# Holds no answer back and gives none: the caller has to hang up.
NEVER: Final = Reply(late=True)


def of_json(value: Any, status: int = 200, **fields: str) -> Reply:
    """An answer with this JSON; an underscore in the name of a field is a hyphen."""
    named = {name.replace("_", "-"): text for name, text in fields.items()}
    return Reply(status=status, fields={"Content-Type": "application/json", **named}, body=json.dumps(value).encode())


def always(reply: Reply) -> Answerer:
    """Give one answer to every request."""
    return lambda _: reply


def in_turn(*replies: Reply) -> Answerer:
    """Give these answers one after another, the last one for ever."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


class Idempotent:
    """An answerer that takes each key for one command: the same bytes get the same answer, other bytes 409.

    `GET /receipts/{key}` gives the answer's body again, 404 where the key never came, 410 where it is in `expired`.
    What `loses` says true of is worked on, but its answer is lost on the way.
    """

    def __init__(self, answer: Answerer | None = None, loses: Callable[[Received], bool] = lambda _: False) -> None:
        self._answer = answer or (lambda received: of_json({"key": received.key}, 201))
        self._loses = loses
        self._known: dict[str, tuple[Received, Reply]] = {}
        self._one_at_a_time = threading.Lock()
        self.expired: set[str] = set()
        self.conflicts: list[Received] = []

    def __call__(self, received: Received) -> Reply:
        if received.method == "GET":
            return self._receipt(received.target.rpartition("/")[2])
        key = received.key
        assert key is not None, received
        with self._one_at_a_time:
            if key not in self._known:
                self._known[key] = received, self._answer(received)
            first, reply = self._known[key]
        if first.command != received.command:
            self.conflicts.append(received)
            return of_json({"title": "the key stands for another command"}, 409)
        return replace(reply, cut=0) if self._loses(received) else reply

    @property
    def effects(self) -> dict[str, Received]:
        """The request that each key was worked on for."""
        return {key: received for key, (received, _) in self._known.items()}

    def _receipt(self, key: str) -> Reply:
        if key in self.expired:
            return of_json({"title": "the receipt is gone"}, 410)
        if key not in self._known:
            return of_json({"title": "no such key"}, 404)
        return replace(self._known[key][1], status=200)


class Receiver:
    """Listens on a port of 127.0.0.1 and answers by `answer`, which may be replaced at any time.

    With `refusing` it has its port, but refuses connections until `listen` is called.
    """

    def __init__(self, answer: Answerer | None = None, *, refusing: bool = False) -> None:
        self.answer: Answerer = answer or always(Reply())
        self._listening = socket.socket()
        self._listening.bind(("127.0.0.1", 0))
        self._refusing = refusing
        self._arrived = threading.Condition()
        self._received: list[Received] = []
        self._held: list[threading.Event] = []
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._ended = False

    def __enter__(self) -> Self:
        if not self._refusing:
            self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        with self._arrived:
            self._ended = True
            for event in self._held:
                event.set()
            for connection in self._open:
                _cut(connection)
        _cut(self._listening)
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def listen(self) -> None:
        """Take connections from now on."""
        self._listening.listen(512)
        self._spawn(self._accept)

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    @property
    def received(self) -> list[Received]:
        """Every request that arrived whole, in the order of arrival."""
        with self._arrived:
            return list(self._received)

    @property
    def by_key(self) -> dict[str, list[Received]]:
        """The commands by their key, in the order of arrival."""
        return _grouped(self.received)

    def wait_for(self, count: int = 1, matching: Callable[[Received], bool] = lambda _: True) -> list[Received]:
        """Return the first `count` requests that match, once they have arrived; fails after PATIENCE_SECONDS."""

        def found() -> list[Received]:
            return [received for received in self._received if matching(received)]

        with self._arrived:
            assert self._arrived.wait_for(lambda: len(found()) >= count, PATIENCE_SECONDS), self._received
            return found()[:count]

    def _spawn(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                with self._arrived:
                    if self._ended:
                        connection.close()
                        return
                    self._open.add(connection)
                self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (request := _read(stream.readline, stream.read)) is not None:
                if not self._reply(connection, self._note(request)):
                    break
            # What else is open on this connection is not read: the caller has to see its end.
            _cut(connection)
        with self._arrived:
            self._open.discard(connection)

    def _note(self, request: Received) -> Received:
        with self._arrived:
            numbered = replace(request, number=len(self._received))
            self._received.append(numbered)
            self._arrived.notify_all()
        return numbered

    def _reply(self, connection: socket.socket, received: Received) -> bool:
        """Answer; whether the connection goes on."""
        reply = self.answer(received)
        if reply.after is not None:
            self._hold(reply.after)
        if reply.late:
            # Returns when the caller hangs up: nothing else is sent before the answer.
            connection.recv(1)
        connection.sendall(reply.head + reply.body[: reply.cut])
        return reply.cut is None and not reply.late

    def _hold(self, event: threading.Event) -> None:
        with self._arrived:
            self._held.append(event)
            if self._ended:
                event.set()
        event.wait()


def _grouped(requests: Iterable[Received]) -> dict[str, list[Received]]:
    grouped: dict[str, list[Received]] = {}
    for received in requests:
        if received.key is not None:
            grouped.setdefault(received.key, []).append(received)
    return grouped


def _read(readline: Callable[[], bytes], read: Callable[[int], bytes]) -> Received | None:
    """Return the next request, None where the caller has left before it was whole."""
    method, _, rest = readline().decode("latin-1").rstrip("\r\n").partition(" ")
    if not rest:
        return None
    fields = []
    while line := readline().decode("latin-1").rstrip("\r\n"):
        name, _, value = line.partition(":")
        fields.append((name.lower(), value.strip()))
    named = dict(fields)
    assert "transfer-encoding" not in named, "a command whose length is known is not sent in chunks"
    length = int(named.get("content-length", 0))
    body = read(length)
    return Received(0, method, rest.rpartition(" ")[0], tuple(fields), body) if len(body) == length else None


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
