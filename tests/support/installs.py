"""A machine that is installed, as its operator sees it: the code, the config, a plan, and the stream of its events."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import yaml

from tests.support import contract
from tests.support.gatehouse import Gatehouse, wait_for
from tests.support.wire import Answer, Fields, Wire, Wrap, message

CONFIG_PATH: Final = "/v1/installer/config"
INSTALL: Final = "/v1/installer/install"
EVENTS: Final = f"{INSTALL}/events"

JSON: Final = {"Content-Type": "application/json"}
YAML: Final = {"Content-Type": "application/yaml"}
CONFIG: Final[dict[str, Any]] = {
    "role": "founder",
    "hostname": "node-1.example",
    "mgmt": {"address": "192.0.2.11/24", "gateway": "192.0.2.1"},
    "links": [{"interface": "enp3s0"}, {"interface": "enp4s0"}],
    "disks": [{"device": "/dev/sda", "confirm": "/dev/sda"}],
    "network": {"floatingIpCidrs": ["198.51.100.0/24", "2001:db8:7::/64"]},
}
SUCCEEDS: Final = ("succeeds", "true")

GREETING: Final = b": gatehouse\n\nretry: 2000\n\n"
COMMENT: Final = b":\n\n"
_FRAME: Final = re.compile(rb"id: (0|[1-9][0-9]*)\nevent: ([a-z]+)\ndata: ([^\r\n]*)\n\n")
# How much a pipe takes at a time without being read; lines of a step are written to one.
_PIPE_BYTES: Final = 65_536


class Event(NamedTuple):
    """A server-sent event, which has one line of data."""

    id: int
    type: str
    data: str

    @property
    def value(self) -> Any:
        """The InstallEvent."""
        return json.loads(self.data)

    @property
    def line(self) -> str:
        """The line of a log event."""
        return str(self.value["line"])


class Stream:
    """An answer of streamInstallEvents that is read as it comes; each event has to be as the document says."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._received = b""
        # When each comment came that is there because nothing else was, by time.monotonic().
        self.comments: list[float] = []
        self.head = wire.read_head()
        assert self.head.header("Content-Type") == "text/event-stream", self.head
        self._expect(GREETING)
        self.begun = time.monotonic()
        begun = replace(self.head, body=GREETING)
        contract.check("GET", EVENTS, begun, "installer")
        wire.heard(begun)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End the connection, whatever comes."""
        self._wire.socket.close()

    def take(self, count: int) -> list[Event]:
        """Wait for so many events."""
        return [self._certain() for _ in range(count)]

    def take_until(self, wanted: Callable[[Event], bool]) -> list[Event]:
        """Wait for the first event that is wanted, and return it with those before it."""
        taken = self.take(1)
        while not wanted(taken[-1]):
            taken += self.take(1)
        return taken

    def rest(self) -> list[Event]:
        """Wait for the end, which has to be a clean one, and return what comes until then."""
        return list(iter(self._next, None))

    def wait_for_comments(self, count: int) -> list[float]:
        """Wait until there were so many comments, and no event, and return when each came."""
        while len(self.comments) < count:
            assert self._frame() is None
            assert self._more(), "the stream has ended"
        return self.comments

    def _certain(self) -> Event:
        event = self._next()
        assert event is not None, "the stream has ended"
        return event

    def _next(self) -> Event | None:
        while (event := self._frame()) is None:
            if not self._more():
                assert self._received == b""
                return None
        return event

    def _frame(self) -> Event | None:
        """Take the next event from what has come, and the comments before it."""
        while self._received.startswith(COMMENT):
            self._received = self._received.removeprefix(COMMENT)
            self.comments.append(time.monotonic())
        end = self._received.find(b"\n\n")
        if end < 0:
            return None
        found = _FRAME.fullmatch(self._received[: end + 2])
        assert found, self._received[: end + 2]
        self._received = self._received[end + 2 :]
        event = Event(int(found[1]), found[2].decode(), found[3].decode())
        _check(event)
        return event

    def _expect(self, data: bytes) -> None:
        while len(self._received) < len(data):
            assert self._more()
        assert self._received.startswith(data)
        self._received = self._received.removeprefix(data)

    def _more(self) -> bool:
        chunk = self._wire.read_chunk()
        self._received += chunk
        return chunk != b""


@lru_cache(maxsize=1 << 16)
def _check(event: Event) -> None:
    contract.check_event("streamInstallEvents", event.data)
    assert (event.id, event.type) == (event.value["id"], event.value["type"])


class Machine:
    """What a server installs on; whoever has the code may do all of it."""

    def __init__(self, server: Gatehouse) -> None:
        self.server = server

    @property
    def code(self) -> str:
        """The code that the machine shows."""
        return self.server.code

    @property
    def operator(self) -> dict[str, str]:
        """The header that lets the operator in."""
        return {"Authorization": f"Bearer {self.code}"}

    @cached_property
    def wrap(self) -> Wrap:
        """How clients connect."""
        return self.server.wrap()

    def connect(self, source: str = "127.0.0.1") -> Wire:
        """Open a connection to the installer listener."""
        return Wire(self.server.installer_port, self.wrap, source=source)

    def ask(
        self,
        method: str,
        target: str,
        fields: Fields = (),
        body: bytes | None = None,
        *,
        source: str = "127.0.0.1",
        chunks: Sequence[bytes] = (),
    ) -> Answer:
        """Send a request as it is given, and return its answer, which has to be one that the document knows."""
        with self.connect(source) as wire:
            wire.write(message(method, target, fields, body, chunks))
            answer = wire.read(method)
        contract.check(method, target, answer, "installer")
        return answer

    def operate(
        self,
        method: str,
        target: str,
        fields: Mapping[str, str | bytes] | None = None,
        body: bytes | None = None,
        *,
        source: str = "127.0.0.1",
        chunks: Sequence[bytes] = (),
    ) -> Answer:
        """Send a request with the code."""
        return self.ask(method, target, {**self.operator, **(fields or {})}, body, source=source, chunks=chunks)

    def guess(self, source: str, code: str | bytes = "WRONG") -> Answer:
        """Ask for the install with a code, by default a wrong one."""
        return self.ask("GET", INSTALL, {"Authorization": code}, source=source)

    def lock(self, source: str) -> Answer:
        """Give wrong codes from an address until none is considered any more; returns the first refusal to do so."""
        locked: Answer = wait_for(lambda: answer if (answer := self.guess(source)).status == 429 else None)
        return locked

    def configure(self, value: Any = CONFIG) -> Answer:
        """Store a config as JSON."""
        return self.operate("PUT", CONFIG_PATH, JSON, json.dumps(value).encode())

    def configure_yaml(self, text: str | bytes) -> Answer:
        """Store a config as YAML."""
        return self.operate("PUT", CONFIG_PATH, YAML, text if isinstance(text, bytes) else text.encode())

    def plan(self, *steps: tuple[str, ...], seconds: int = 60) -> None:
        """Let the next attempt run these steps: of each its name, then its command's words."""
        plan = [{"name": name, "run": run, "timeoutSeconds": seconds} for name, *run in steps]
        (self.server.state / "install-plan.yaml").write_text(yaml.safe_dump({"steps": plan}))

    def install(self) -> Any:
        """Show the latest attempt."""
        answer = self.operate("GET", INSTALL)
        assert answer.status == 200, answer
        return answer.json

    @property
    def last_id(self) -> int:
        """The id of the newest event."""
        return int(self.install()["lastEventId"])

    def start(self) -> Any:
        """Start an attempt."""
        answer = self.operate("POST", INSTALL)
        assert answer.status == 202, answer
        assert answer.header("Location") == INSTALL
        return answer.json

    def ended(self) -> Any:
        """Wait for the end of the attempt that runs, and return it."""
        return wait_for(lambda: now if (now := self.install())["state"] != "running" else None)

    def run(self, *steps: tuple[str, ...], seconds: int = 60) -> Any:
        """Install by these steps, and return how it ended."""
        self.plan(*steps, seconds=seconds)
        self.start()
        return self.ended()

    @contextlib.contextmanager
    def writing(self, *then: tuple[str, ...]) -> Iterator[Pen]:
        """Install by a step that prints what is written here, line by line; it ends with this, and others follow."""
        pipe = self.server.state / "pipe"
        if not pipe.exists():
            os.mkfifo(pipe)
        self.plan(("write", "cat", pipe.name), *then)
        self.start()
        with Pen(pipe) as pen:
            yield pen
        self.ended()

    def stream(
        self,
        after: int | str | None = None,
        *,
        last_event_id: int | str | None = None,
        source: str = "127.0.0.1",
        buffer: int | None = None,
    ) -> Stream:
        """Follow the install; where `buffer` is given, the client's socket takes no more bytes than that at a time."""
        query = "" if after is None else f"?after={after}"
        fields = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
        wire = Wire(self.server.installer_port, self.wrap, source=source, buffer=buffer)
        with contextlib.ExitStack() as failing:
            failing.enter_context(wire)
            wire.write(message("GET", EVENTS + query, self.operator | fields))
            stream = Stream(wire)
            failing.pop_all()
        return stream

    def history(self, after: int = 0) -> list[Event]:
        """Read what there is, which has to end with a verdict."""
        with self.stream(after) as stream:
            events = stream.rest()
        assert [event.id for event in events] == list(range(after + 1, after + 1 + len(events)))
        return events

    def refused(self, query: str = "", *fields: tuple[str, str | bytes]) -> Answer:
        """Ask for a stream that is refused."""
        return self.ask("GET", EVENTS + query, [*self.operator.items(), *fields])


class Pen:
    """Writes what a step of an install prints."""

    def __init__(self, pipe: Path) -> None:
        self._pipe = pipe
        self._descriptor = -1

    def __enter__(self) -> Self:
        self._descriptor = wait_for(self._open)
        os.set_blocking(self._descriptor, True)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """Write bytes; raises BrokenPipeError where the step has ended."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view[:_PIPE_BYTES]) :]

    def lines(self, first: int, count: int, width: int = 0) -> None:
        """Write lines that say their numbers, each filled up to `width`."""
        text = "".join(f"line {number}".ljust(width, ".") + "\n" for number in range(first, first + count))
        self.write(text.encode())

    def is_read(self) -> bool:
        """Write one line more; whether the step that reads it is still there."""
        try:
            self.write(b"one more\n")
        except BrokenPipeError:
            return False
        return True

    def close(self) -> None:
        """End the step's output."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> int:
        # Where the install has failed nobody ever reads it, and to wait for that would be to wait for ever.
        with contextlib.suppress(OSError):
            return os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        return 0


def logged(events: Sequence[Event]) -> list[str]:
    """Return the lines of the log events."""
    return [event.line for event in events if event.type == "log"]


def numbered(count: int) -> list[str]:
    """Return the lines that a Pen has written from number 0 on."""
    return [f"line {number}" for number in range(count)]


def assert_readers_miss_nothing(machine: Machine, *, connections: int, at_a_time: int, seed: int) -> None:
    """Install and connect again and again beside it; fail unless both ways of resuming give each event just once."""
    chance = random.Random(seed)
    before = machine.last_id
    by_header, by_query = Follower(machine, before, header=True), Follower(machine, before, header=False)
    written = 0
    with machine.writing() as pen:
        for turn in range(connections):
            follower = chance.choice([by_header, by_query])
            with follower.connected() as stream:
                pen.lines(written, at_a_time)
                written += at_a_time
                # What is there for sure: the step's start, and the lines.
                there = before + 1 + written - follower.last
                follower.read(stream, chance.randrange(0, there + 1) if turn % 3 else chance.choice([0, 1, there]))
    for follower in (by_header, by_query):
        with follower.connected() as stream:
            follower.events += stream.rest()
        assert [event.id for event in follower.events] == list(range(before + 1, before + written + 4))
        assert logged(follower.events) == numbered(written)
        assert follower.events[-1].value["outcome"] == "succeeded"
    assert by_header.events == by_query.events == machine.history(before)


class Follower:
    """A client that loses its connection again and again."""

    def __init__(self, machine: Machine, after: int, *, header: bool) -> None:
        self._machine = machine
        self._after = after
        self._header = header
        self.events: list[Event] = []

    @property
    def last(self) -> int:
        """The id of the last event that it has."""
        return self.events[-1].id if self.events else self._after

    def connected(self) -> Stream:
        """Connect where it stopped."""
        return self._machine.stream(last_event_id=self.last) if self._header else self._machine.stream(self.last)

    def read(self, stream: Stream, count: int) -> None:
        """Read so many events of those that are there or come."""
        self.events += stream.take(count)
