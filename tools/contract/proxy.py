"""A reverse proxy that hands on what comes, as it comes, and gives each exchange to a recorder."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any, Final, TypeAlias

import httpx

from tools.contract.document import EVENT_STREAM, Reply, Request
from tools.contract.recorder import Finding, Recorder
from tools.standalone import Standalone
from tools.watcher.sse import Parser, TooLongError

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Any]
Send: TypeAlias = Callable[[dict[str, Any]], Any]
RawFields: TypeAlias = list[tuple[bytes, bytes]]

# A body beyond this is handed on like any other, and of its answer the head alone is judged.
KEPT_BYTES: Final = 4 << 20
CONNECT_SECONDS: Final = 10.0
# What one connection has to itself (RFC 9110, section 7.6.1). A body that came in chunks goes on in chunks.
_OF_A_CONNECTION: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade", b"expect")
)
# Without these nobody knows where a body ends, whoever names them.
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding"))
_STATUSES: Final = range(200, 600)
_WITHOUT_BODY: Final = frozenset((204, 304))


class _Body(httpx.AsyncByteStream):
    """A body that is handed on piece by piece, and kept as far as it is not too long."""

    def __init__(self) -> None:
        self._kept: list[bytes] | None = []
        self._size = 0

    def keep(self, piece: bytes) -> None:
        """Take another piece."""
        self._size += len(piece)
        if self._size > KEPT_BYTES:
            self._kept = None
        if self._kept is not None and piece:
            self._kept.append(piece)

    @property
    def content(self) -> bytes | None:
        """All of it, None where it was too long."""
        return None if self._kept is None else b"".join(self._kept)


class _Uploaded(_Body):
    def __init__(self, receive: Receive) -> None:
        super().__init__()
        self._receive = receive
        self._ended = asyncio.Event()
        self.cut_off = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                self.cut_off = True
                raise httpx.WriteError("the client has left")
            self.keep(event.get("body", b""))
            more = event.get("more_body", False)
            if event.get("body"):
                yield event["body"]
        self._ended.set()

    async def left(self) -> None:
        """Wait until the client leaves after it has sent everything."""
        await self._ended.wait()
        await _left(self._receive)


class Proxy:
    """The ASGI application; `tell` is called with each finding as soon as there is one.

    `context` decides which servers an https upstream may be, and as whom it is spoken to.
    """

    def __init__(
        self,
        upstream: str,
        recorder: Recorder,
        tell: Callable[[Finding], None],
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._upstream = httpx.URL(upstream)
        self._recorder = recorder
        self._tell = tell
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._transport = httpx.AsyncHTTPTransport(verify=context or False, limits=limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on one request and its answer."""
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        uploaded = _Uploaded(receive)
        asked = httpx.Request(
            scope["method"],
            self._upstream,
            headers=[(b"host", self._upstream.netloc), *_handed_on(scope["headers"])],
            stream=uploaded,
            extensions={
                "target": self._upstream.raw_path.rstrip(b"/") + target,
                "timeout": {"connect": CONNECT_SECONDS, "read": None, "write": None, "pool": None},
            },
        )
        fields = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        seen = _Seen(scope["method"], target.decode("latin-1"), fields, uploaded)
        try:
            answer = await self._answer(asked, uploaded)
        except httpx.TransportError:
            if not uploaded.cut_off:
                await self._refuse(seen, send, "the upstream gives no answer")
            return
        if answer is None:
            return
        try:
            if answer.status_code in _STATUSES:
                await self._hand_back(answer, seen, receive, send)
            else:
                await self._refuse(seen, send, f"the upstream answers {answer.status_code}, which is no status of HTTP")
        finally:
            await answer.aclose()

    async def close(self) -> None:
        """End the connections to the upstream."""
        await self._transport.aclose()

    async def _answer(self, asked: httpx.Request, uploaded: _Uploaded) -> httpx.Response | None:
        """Return the upstream's answer, None where the client leaves before there is one; raises TransportError."""
        asking = asyncio.ensure_future(self._transport.handle_async_request(asked))
        leaving = asyncio.ensure_future(uploaded.left())
        try:
            await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (asking, leaving):
                task.cancel()
        await asyncio.gather(asking, leaving, return_exceptions=True)
        return None if asking.cancelled() else asking.result()

    async def _refuse(self, seen: _Seen, send: Send, message: str) -> None:
        text = b"The upstream gives no answer that could be passed on.\n"
        fields = [(b"content-type", b"text/plain"), (b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": 502, "headers": fields})
        await send({"type": "http.response.body", "body": text})
        self._tell(Finding("answer", "", seen.method, seen.path, 502, message))

    async def _hand_back(self, answer: httpx.Response, seen: _Seen, receive: Receive, send: Send) -> None:
        left = _left_out(answer.headers.raw)
        if answer.status_code in _WITHOUT_BODY:
            # Of such an answer it tells the length of a body that does not come.
            left |= {b"content-length"}
        raw = [(name, value) for name, value in answer.headers.raw if name.lower() not in left]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": raw})
        head = Reply(answer.status_code, [(n.decode("latin-1").lower(), v.decode("latin-1")) for n, v in raw], None)
        streamed = head.media_type == EVENT_STREAM
        if streamed:
            self._note(seen.request, head)
        copying = asyncio.ensure_future(self._copy(answer, seen.request, head, send))
        leaving = asyncio.ensure_future(_left(receive))
        await asyncio.wait({copying, leaving}, return_when=asyncio.FIRST_COMPLETED)
        whole = copying.done() and not copying.cancelled() and copying.exception() is None
        for task in (copying, leaving):
            task.cancel()
        copied, _ = await asyncio.gather(copying, leaving, return_exceptions=True)
        if isinstance(copied, httpx.TransportError):
            self._tell(Finding("answer", "", seen.method, seen.path, head.status, "the upstream cut the answer off"))
        if not streamed:
            body = copied.content if whole and isinstance(copied, _Body) and _readable(seen, head) else None
            self._note(seen.request, head._replace(body=body))

    async def _copy(self, answer: httpx.Response, request: Request, head: Reply, send: Send) -> _Body:
        body, events = _Body(), Parser() if head.media_type == EVENT_STREAM else None
        assert isinstance(answer.stream, httpx.AsyncByteStream)  # noqa: S101 - httpx has one type for both
        async for piece in answer.stream:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            body.keep(piece)
            if events is not None:
                events = self._note_events(events, piece, request, head)
        await send({"type": "http.response.body", "body": b""})
        return body

    def _note_events(self, parser: Parser, piece: bytes, request: Request, head: Reply) -> Parser | None:
        try:
            for event in parser.feed(piece):
                for finding in self._recorder.note_event(request, head, event.data):
                    self._tell(finding)
        except TooLongError:
            self._tell(Finding("answer", "", request.method, request.path, head.status, "an event is too long to read"))
            return None
        return parser

    def _note(self, request: Request, reply: Reply) -> None:
        for finding in (*self._recorder.note(request, reply), *self._recorder.note_request(request, reply)):
            self._tell(finding)


class _Seen:
    """A request, of which the body comes in time."""

    def __init__(self, method: str, target: str, fields: list[tuple[str, str]], body: _Body) -> None:
        self.method = method
        self.path = target.partition("?")[0]
        self._target = target
        self._fields = fields
        self._body = body

    @property
    def request(self) -> Request:
        """What has come of it so far."""
        return Request(self.method, self._target, self._fields, self._body.content)


class Server(Standalone):
    """Serves a proxy."""

    def __init__(self, proxy: Proxy) -> None:
        # The answers have the upstream's.
        super().__init__(proxy, date_header=False)
        self._proxy = proxy

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `should_exit`, which a signal sets where this is the main thread."""
        asyncio.run(self._serve_to_its_end(sockets))

    async def _serve_to_its_end(self, sockets: list[socket.socket] | None) -> None:
        try:
            await self.serve(sockets)
        finally:
            await self._proxy.close()


def _left_out(fields: RawFields) -> frozenset[bytes]:
    """Return the names of the fields that end here, those that `Connection` names among them."""
    told = (value for name, value in fields if name.lower() == b"connection")
    named = {name.strip().lower() for value in told for name in value.split(b",")}
    return (_OF_A_CONNECTION | named) - _FRAMING


def _handed_on(fields: RawFields) -> RawFields:
    """Return a request's fields as the upstream gets them; bodies are to come as they can be read."""
    left = _left_out(fields) | {b"host", b"accept-encoding"}
    return [*((name, value) for name, value in fields if name not in left), (b"accept-encoding", b"identity")]


def _readable(seen: _Seen, head: Reply) -> bool:
    return seen.method != "HEAD" and (head.header("content-encoding") or "identity").lower() == "identity"


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
