from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.handlers.gateway.certificates import Certificates
from tests.support.gatehouse import wait_for
from tests.tools.contract.library import library
from tools.contract.document import Cell, Reply, Request
from tools.contract.proxy import KEPT_BYTES, Proxy, Server
from tools.contract.recorder import Finding, Recorder

PATIENCE_SECONDS = 30


@dataclass
class Upstream:
    """A server that keeps what it gets, and answers by `answer`."""

    port: int = 0
    lines: list[str] = field(default_factory=list)
    fields: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    status: int = 200
    answer: list[bytes] = field(default_factory=lambda: [b'["Emma"]'])
    named: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json", "X-Total": "1"})
    going_on: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    length: int | None = None
    silent: bool = False


def handler(upstream: Upstream) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def take(self) -> None:
            upstream.lines.append(self.requestline)
            upstream.fields.append(dict(self.headers))
            upstream.bodies.append(self.body())
            if self.gone():
                return
            self.send_response_only(upstream.status)
            for name, value in upstream.named.items():
                self.send_header(name, value)
            first, *others = upstream.answer
            whole = upstream.length or sum(map(len, upstream.answer))
            self.send_header("Content-Length", str(whole)) if upstream.status != 204 else None
            self.end_headers()
            if self.command != "HEAD" and upstream.status != 204:
                self.wfile.write(first)
            for piece in others:
                self.wfile.flush()
                upstream.going_on.wait(PATIENCE_SECONDS)
                self.wfile.write(piece)
            self.close_connection = upstream.length is not None

        def gone(self) -> bool:
            """Wait until the other side leaves, where that is to be or was while it sent its body."""
            length = int(self.headers.get("Content-Length", 0))
            if upstream.silent or (length and len(upstream.bodies[-1]) < length):
                self.close_connection = not self.rfile.read(1)
                upstream.left.set()
            return self.close_connection

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                pieces = []
                while size := int(self.rfile.readline(), 16):
                    pieces.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(pieces)
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        do_GET = do_POST = do_HEAD = do_DELETE = take  # noqa: N815 - http.server asks for these names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
            pass

    return Handler


@contextlib.contextmanager
def running(upstream: Upstream, context: ssl.SSLContext | None = None) -> Iterator[Upstream]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(upstream))
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    upstream.port = server.server_port
    try:
        yield upstream
    finally:
        upstream.going_on.set()
        server.shutdown()
        thread.join()
        server.server_close()


class Judging(Recorder):
    """Counts the exchanges of which it has said all."""

    judged = 0

    def note_request(self, request: Request, reply: Reply) -> list[Finding]:
        try:
            return super().note_request(request, reply)
        finally:
            self.judged += 1


class Passing:
    """A proxy that serves, and what it has told."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        self.findings: list[Finding] = []
        self.recorder = Judging([library()])
        self._proxy = Proxy(url, self.recorder, self.findings.append, context)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._server = Server(self._proxy)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def __enter__(self) -> Passing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def ask(
        self, method: str, target: str, body: Any = None, fields: dict[str, str] | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, target, body, fields or {})
            answer = connection.getresponse()
            return answer, answer.read()

    def wait_for(self, exchanges: int) -> None:
        """Wait until so many exchanges are judged, their requests included."""
        wait_for(lambda: self.recorder.judged >= exchanges)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with running(Upstream()) as served:
        yield served


@pytest.fixture
def passing(upstream: Upstream) -> Iterator[Passing]:
    with Passing(f"http://127.0.0.1:{upstream.port}") as proxy:
        yield proxy


def test_a_request_and_its_answer_go_through_as_they_are(upstream: Upstream, passing: Passing) -> None:
    answer, body = passing.ask("GET", "/v2/books?limit=2&x=%2f%20", fields={"X-Own": "a  b", "Authorization": "s3cret"})
    assert (answer.status, body) == (200, b'["Emma"]')
    assert answer.getheader("X-Total") == "1"
    assert answer.getheader("Server") is None
    assert upstream.lines == ["GET /v2/books?limit=2&x=%2f%20 HTTP/1.1"]
    assert upstream.fields[0]["X-Own".lower()] == "a  b"
    assert upstream.fields[0]["authorization"] == "s3cret"
    assert upstream.fields[0]["host"] == f"127.0.0.1:{upstream.port}"
    passing.wait_for(1)
    assert passing.findings == []
    assert Cell("library", "listBooks", "200", "", "application/json") in passing.recorder.met


@pytest.mark.parametrize("path", ["//books/../%2e/", "/books/a%00%ff", "/books/;a=b,c"])
def test_no_path_is_made_another(path: str, upstream: Upstream, passing: Passing) -> None:
    passing.ask("GET", path)
    assert upstream.lines == [f"GET {path} HTTP/1.1"]


def test_bodies_go_through_with_a_length_and_in_chunks(upstream: Upstream, passing: Passing) -> None:
    upstream.status = 204
    upstream.named = {}
    kind = {"Content-Type": "application/json"}
    answer, _ = passing.ask("POST", "/books", b'{"title": "Emma"}', kind)
    assert answer.status == 204
    passing.ask("POST", "/books", iter([b'{"title"', b': "Emma"}']), kind)
    assert upstream.bodies == [b'{"title": "Emma"}'] * 2
    passing.wait_for(2)
    assert passing.findings == []


def test_a_wrong_request_and_a_wrong_answer_are_told(upstream: Upstream, passing: Passing) -> None:
    upstream.named.pop("X-Total")
    passing.ask("GET", "/books?limit=0")
    findings = wait_for(lambda: passing.findings if len(passing.findings) == 2 else None)
    assert [finding.kind for finding in findings] == ["answer", "request"]


def test_an_answer_comes_piece_by_piece_before_it_is_whole(upstream: Upstream, passing: Passing) -> None:
    upstream.named = {"Content-Type": "text/event-stream"}
    upstream.answer = [b'data: {"number": 1}\n\n', b"data: {}\n\n"]
    connection = http.client.HTTPConnection("127.0.0.1", passing.port, timeout=PATIENCE_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/books/news")
        answer = connection.getresponse()
        assert answer.read(len(upstream.answer[0])) == upstream.answer[0]
        assert passing.recorder.met == {Cell("library", "followNews", "200", "", "text/event-stream")}
        assert passing.findings == []
        upstream.going_on.set()
        assert answer.read() == upstream.answer[1]
    (finding,) = wait_for(lambda: passing.findings)
    assert "required" in finding.message


def test_a_client_that_leaves_an_endless_answer_leaves_nothing_behind(upstream: Upstream, passing: Passing) -> None:
    upstream.named = {"Content-Type": "text/event-stream"}
    upstream.answer = [b'data: {"number": 1}\n\n', b""]
    connection = http.client.HTTPConnection("127.0.0.1", passing.port, timeout=PATIENCE_SECONDS)
    connection.request("GET", "/books/news")
    assert connection.getresponse().read(4) == b"data"
    connection.close()
    # The proxy ends although nothing more comes from the upstream.


def test_a_client_that_leaves_before_there_is_an_answer_is_none_of_the_upstreams_faults(
    upstream: Upstream, passing: Passing
) -> None:
    upstream.answer = [b"", b'["Emma"]']
    upstream.silent = True
    connection = http.client.HTTPConnection("127.0.0.1", passing.port, timeout=PATIENCE_SECONDS)
    connection.request("GET", "/books")
    wait_for(lambda: upstream.lines)
    connection.close()
    assert upstream.left.wait(PATIENCE_SECONDS)
    assert passing.findings == []


def test_a_client_that_leaves_an_upload_is_none_of_the_upstreams_faults(upstream: Upstream, passing: Passing) -> None:
    with socket.create_connection(("127.0.0.1", passing.port)) as client:
        client.sendall(b"POST /books HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        wait_for(lambda: upstream.lines)
    assert upstream.left.wait(PATIENCE_SECONDS)
    assert passing.findings == []


def test_fields_that_a_connection_names_end_there_but_for_the_length(upstream: Upstream, passing: Passing) -> None:
    upstream.named |= {"Connection": "X-Own, Content-Length", "X-Own": "1"}
    fields = {"Connection": "X-Own, Content-Length", "X-Own": "1", "Content-Type": "application/json"}
    answer, body = passing.ask("POST", "/books", b'{"title": "Emma"}', fields)
    assert (answer.getheader("X-Own"), body) == (None, b'["Emma"]')
    assert "x-own" not in upstream.fields[0]
    assert upstream.bodies == [b'{"title": "Emma"}']


def test_an_answer_that_is_not_modified_may_tell_a_length(upstream: Upstream, passing: Passing) -> None:
    upstream.status = 304
    upstream.answer = [b""]
    upstream.length = 10
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", passing.port, timeout=PATIENCE_SECONDS)) as client:
        for _ in range(2):
            client.request("GET", "/books")
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (304, b"")


def test_a_status_that_is_none_is_told_and_answered_with_502(upstream: Upstream, passing: Passing) -> None:
    upstream.status = 999
    answer, _ = passing.ask("GET", "/books")
    assert answer.status == 502
    assert "999" in wait_for(lambda: passing.findings)[0].message


def test_an_answer_that_is_cut_off_is_told(upstream: Upstream, passing: Passing) -> None:
    upstream.length = 1000
    with pytest.raises(http.client.IncompleteRead):
        passing.ask("GET", "/books")
    assert "cut" in wait_for(lambda: passing.findings)[0].message


def test_of_a_body_that_is_too_long_the_head_is_judged(upstream: Upstream, passing: Passing) -> None:
    upstream.answer = [b"x" * (KEPT_BYTES + 1)]
    _, body = passing.ask("GET", "/books")
    assert len(body) == KEPT_BYTES + 1
    passing.wait_for(1)
    assert passing.findings == []


def test_a_head_is_no_answer_without_its_body(upstream: Upstream, passing: Passing) -> None:
    answer, body = passing.ask("HEAD", "/books")
    assert (answer.getheader("Content-Length"), body) == (str(len(upstream.answer[0])), b"")
    passing.wait_for(1)
    assert passing.findings == []


def test_an_upstream_that_is_away_is_told_and_answered_with_502() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Passing(f"http://127.0.0.1:{port}") as proxy:
        answer, _ = proxy.ask("GET", "/books")
    assert answer.status == 502
    assert [finding.status for finding in proxy.findings] == [502]


def test_an_upstream_over_tls_is_shown_a_client_certificate(certificates: Certificates) -> None:
    context = certificates.server()
    context.verify_mode = ssl.CERT_REQUIRED
    with running(Upstream(), context) as upstream:
        client = certificates.client(ssl.TLSVersion.TLSv1_3, certificate=True)
        with Passing(f"https://localhost:{upstream.port}", client) as proxy:
            answer, body = proxy.ask("GET", "/books")
        assert (answer.status, body) == (200, b'["Emma"]')
