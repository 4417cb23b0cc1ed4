from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

import pytest

from tools.watcher.answers import Install, InstallEvent

# Answers a request for the stream in place of the installer.
Answer: TypeAlias = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Installer:
    """An installer as bad networks show it; a request for the stream takes the next of `answers`, if there is one."""

    url: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    attempt: int = 0
    state: str = "idle"
    steps: tuple[str, ...] = ("one", "two")
    away: bool = False

    def begin(self) -> None:
        """Start the next attempt."""
        self.attempt += 1
        self.state = "running"

    def tell(self, kind: str, **members: Any) -> None:
        """Have an event of the newest attempt."""
        self.events.append({"id": len(self.events) + 1, "attempt": self.attempt, "type": kind, **members})

    def run(self, lines: list[str], outcome: str = "succeeded") -> None:
        """Have a whole attempt of one step."""
        self.begin()
        self.tell("step", step="one", status="started")
        for line in lines:
            self.tell("log", step="one", line=line)
        self.tell("step", step="one", status=outcome)
        self.end(outcome)

    def end(self, outcome: str) -> None:
        """End the attempt."""
        detail = {} if outcome == "succeeded" else {"detail": "so it is"}
        self.tell("verdict", outcome=outcome, **detail)
        self.state = outcome

    def install(self) -> bytes:
        """What getInstall answers."""
        return json.dumps(
            {
                "attempt": self.attempt,
                "state": self.state,
                "steps": [{"name": name, "status": "waiting"} for name in self.steps],
                "detail": None if self.state != "failed" else "so it is",
                "lastEventId": len(self.events),
            }
        ).encode()

    def frames(self, after: int) -> bytes:
        """What a stream has after an event."""
        frames = [
            f"id: {each['id']}\nevent: {each['type']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n"
            for each in self.events[after:]
        ]
        return b": gatehouse\n\nretry: 20\n\n" + "".join(frames).encode()


def answer(handler: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, kind: str = "", **fields: str) -> None:
    """Send a whole answer."""
    handler.send_response(status)
    for name, value in fields.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Type", kind or "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def stream(handler: BaseHTTPRequestHandler, data: bytes, *, size: int = 7, whole: bool = True) -> None:
    """Send a stream in chunks; one that is not whole ends with the connection."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    if whole:
        handler.wfile.write(b"0\r\n\r\n")
    else:
        handler.close_connection = True


@dataclass
class Seen:
    """A view that keeps what it is told."""

    events: list[InstallEvent] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    installs: list[Install] = field(default_factory=list)
    ends: list[tuple[int, str, str | None]] = field(default_factory=list)
    troubles: list[str | None] = field(default_factory=list)

    def install(self, install: Install) -> None:
        self.installs.append(install)

    def event(self, event: InstallEvent, data: str) -> None:
        self.events.append(event)
        self.data.append(data)

    def end(self, attempt: int, outcome: str, detail: str | None) -> None:
        self.ends.append((attempt, outcome, detail))

    def trouble(self, detail: str | None) -> None:
        self.troubles.append(detail)


@pytest.fixture
def installer() -> Iterator[Installer]:
    served = Installer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if served.away:
                self.close_connection = True
            elif self.path.endswith("/events"):
                served.resumed.append(self.headers["Last-Event-ID"])
                if served.answers:
                    served.answers.pop(0)(self)
                else:
                    stream(self, served.frames(int(self.headers["Last-Event-ID"])))
            else:
                answer(self, served.install())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    yield served
    server.shutdown()
    thread.join()
    server.server_close()
