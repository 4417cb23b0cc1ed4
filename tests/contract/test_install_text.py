from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.browser import FLAGS
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import wait_for
from tests.support.installs import COMMENT, EVENTS, GREETING, Event, Machine, logged
from tests.support.programs import needs
from tests.support.wire import message

HERE: Final = Path(__file__).parent / "eventsource"
PAGE: Final = (HERE / "page.html").read_bytes()
MEGABYTE: Final = 1_000_000
LINE_BYTES: Final = 65_536
PATIENCE_SECONDS: Final = 60.0

WRITTEN: Final = [
    b"plain",
    b"",
    b" ",
    b"\ttab",
    b"\r",
    b"a\rb",
    b"ends with CR\r",
    b"\r\r\r",
    b"nul \x00 and \x01\x1b[31m\x7f",
    "line\u2028paragraph\u2029next\u0085line\v\f\x1c\x1d\x1e".encode(),
    "\ufeffwith a byte order mark, ü, 😀, \u202e, e\u0301".encode(),
    b"\xff\xfe is no UTF-8",
    b"\xc3",
    b"\xed\xa0\x80 a surrogate",
    b"\xf4\x90\x80\x80 beyond Unicode, \xc0\xaf too long",
    b": a comment",
    b"data: more",
    b"id: 5",
    b"event: verdict",
    b"retry: 1",
    b'{"json": "\\u0000"}',
    b"<script>alert(1)</script>",
    b"x" * MEGABYTE,
    b"y" * LINE_BYTES,
    b"z" * (LINE_BYTES + 1),
    "ü".encode() * LINE_BYTES,
    b"\\",
    b'"',
    b"the last one has no LF",
]


def shown(line: bytes) -> str:
    """What an event has of a line."""
    if len(line) <= LINE_BYTES:
        return line.decode(errors="replace")
    return f"{line[:LINE_BYTES].decode()} [cut: {len(line) - LINE_BYTES} more bytes]"


@pytest.fixture(scope="module")
def before(machine: Machine) -> int:
    """The id before the first event of an attempt that has printed all of it."""
    last = machine.last_id
    with machine.writing() as pen:
        pen.write(b"\n".join(WRITTEN))
    return last


@pytest.fixture
def events(machine: Machine, before: int) -> list[Event]:
    """The events of that attempt."""
    with machine.stream(before) as stream:
        return stream.take_until(lambda event: event.type == "verdict")


def test_each_line_is_one_event_with_one_line_of_data(events: list[Event]) -> None:
    # That there is nothing else between the events the reader of these tests has seen to.
    assert logged(events) == [shown(line) for line in WRITTEN]
    assert [event.type for event in events] == ["step", *["log"] * len(WRITTEN), "step", "verdict"]
    for event in events:
        assert len(event.data.splitlines()) == 1


def test_lines_that_come_in_pieces_are_whole(machine: Machine) -> None:
    last = machine.last_id
    with machine.writing() as pen, machine.stream(last) as stream:
        stream.take(1)
        for piece in (b"in ", b"pieces \xc3"):
            pen.write(piece)
            stream.wait_for_comments(len(stream.comments) + 1)
        pen.write(b"\xbc\na")
        assert logged(stream.take(1)) == ["in pieces ü"]
        pen.write(b"nother\nlast")
        pen.close()
        assert logged(stream.rest()) == ["another", "last"]


def raw(machine: Machine, after: int) -> bytes:
    """The bytes of a stream that ends."""
    with machine.connect() as wire:
        wire.write(message("GET", f"{EVENTS}?after={after}", machine.operator))
        assert wire.read_head().status == 200
        return b"".join(iter(wire.read_chunk, b""))


@in_ci_alone
@needs("npm")
def test_the_parser_that_browsers_programs_use_reads_the_events_back(
    machine: Machine, before: int, tmp_path: Path
) -> None:
    for file in HERE.iterdir():
        shutil.copy(file, tmp_path)
    install = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(install, cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
    stream, events = raw(machine, before), machine.history(before)
    assert stream.startswith(GREETING)
    for size in (1, 7, 4096, len(stream)):
        # Byte by byte is for what is short.
        given = stream[: 1 << 16 if size == 1 else None]
        given = given[: given.rindex(b"\n\n") + 2]
        done = subprocess.run(
            ["node", "read.mjs", str(size)],
            cwd=tmp_path,
            input=given,
            capture_output=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
        read = json.loads(done.stdout)
        count = given.count(b"\n\n") - 2
        assert read["events"] == [[str(event.id), event.type, event.data] for event in events[:count]]
        assert (read["errors"], read["retry"], read["comments"]) == ([], 2000, ["gatehouse"])


class Relay:
    """Serves a page, and the stream with the code added, as a browser cannot; keeps what the page has read."""

    def __init__(self, machine: Machine, after: int) -> None:
        relay = self
        self.read: Any = None

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path == "/events":
                    self._pass_on()
                else:
                    self._answer(200 if self.path == "/" else 404, PAGE if self.path == "/" else b"")

            def do_POST(self) -> None:
                relay.read = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(204, b"")

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _pass_on(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                last = self.headers["Last-Event-ID"] or str(after)
                with machine.connect() as wire:
                    wire.write(message("GET", EVENTS, machine.operator | {"Last-Event-ID": last}))
                    assert wire.read_head().status == 200
                    for chunk in iter(wire.read_chunk, b""):
                        self.wfile.write(chunk)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def relay(machine: Machine, before: int) -> Iterator[Relay]:
    with Relay(machine, before) as relaying:
        yield relaying


@in_ci_alone
@needs("chromium")
def test_a_browsers_event_source_reads_the_events_back(relay: Relay, events: list[Event], tmp_path: Path) -> None:
    with subprocess.Popen(
        ["chromium", *FLAGS, "--remote-debugging-port=0", f"--user-data-dir={tmp_path}", relay.url],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as browser:
        try:
            read = wait_for(lambda: relay.read, PATIENCE_SECONDS)
        finally:
            browser.terminate()
    assert read == [[str(event.id), event.type, event.data] for event in events]


def test_comments_are_no_part_of_events(machine: Machine) -> None:
    last = machine.last_id
    with machine.writing() as pen, machine.connect() as wire:
        wire.write(message("GET", f"{EVENTS}?after={last}", machine.operator))
        assert wire.read_head().status == 200
        received = b""
        while received.count(COMMENT) < 2:
            received += wire.read_chunk()
        pen.lines(0, 1)
        pen.close()
        received += b"".join(iter(wire.read_chunk, b""))
    with machine.stream(last) as stream:
        ids = [event.id for event in stream.rest()]
    assert [int(part[4:]) for part in received.decode().split("\n") if part.startswith("id: ")] == ids
