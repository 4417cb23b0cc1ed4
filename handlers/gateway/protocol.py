"""uvicorn's HTTP/1.1 protocol with what it lacks.

That is the raw request target, the client's certificate, bounds in bytes and seconds, and problems for what its parser
refuses.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
import time
from collections.abc import Mapping
from enum import Enum
from itertools import chain
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade
from starlette.types import Message
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from handlers.gateway.exchange import CONNECTION, FAULT, TARGET, ClientLeft, Exchange
from handlers.gateway.pressure import AT_ONCE_SECONDS, REFUSED, REST_SECONDS, Door

HEADER_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
# So long is waited for a client to confirm the end of its TLS session, and at the stop for the rest of a body.
STOP_SECONDS: Final = 1.0
# And so long for that when the server stops and has just sent the end of an answer, which may have been late itself.
GOODBYE_SECONDS: Final = 0.5
HEADER_BYTES: Final = 65_536
# An answer of which a client takes nothing for so long is cut off; so many bytes of it wait here at most, beside the
# last that came. By itself TLS would let eight times as many wait.
TAKE_SECONDS: Final = 60.0
WAITING_BYTES: Final = 16_384
# Where Linux has in a connection's state how many bytes the other end has confirmed (struct tcp_info).
_CONFIRMED: Final = slice(120, 128)

_TLS_VERSIONS: Final[Mapping[str, int]] = {"TLSv1.2": 0x0303, "TLSv1.3": 0x0304}


class _Phase(Enum):
    """What the connection receives: nothing, a header section, a body, or what follows a fault and is dropped."""

    IDLE = 0
    HEADER = 1
    BODY = 2
    REFUSED = 3


class GatewayProtocol(HttpToolsProtocol):
    """One connection of a listener."""

    _tls: dict[object, object] | None = None
    _deadline: asyncio.TimerHandle | None = None
    _phase = _Phase.IDLE
    _progressed = False
    _overhead = 0
    _chunk = 0
    _since_complete = 0
    _answering: RequestResponseCycle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _stopping = False
    _dropping = False
    _refused_at = 0.0
    door: Door | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the client's certificate and start waiting for a first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=WAITING_BYTES)
        tls_object = transport.get_extra_info("ssl_object")
        if tls_object is not None:
            self._tls = _tls_extension(tls_object)
        self._expect(HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline with the connection, and the requests that nobody waits for any more.

        uvicorn tells the end to the last request that was read; the one that is being answered may be another.
        """
        self._expect(None)
        self._go_on_taking()
        if self._answering is not None:
            self._answering.disconnected = True
            self._answering.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what was asked in whole by a client that has closed its half; anything else ends with the connection.

        TLS has no such half.
        """
        whole = self._phase in {_Phase.IDLE, _Phase.REFUSED}
        if self._tls is not None or not whole or self.cycle is None or self.cycle.response_complete:
            return False
        self.cycle.keep_alive = False
        self.cycle.more_body = False
        self.cycle.message_event.set()
        return True

    def shutdown(self) -> None:
        """End the connection with the request that it carries; one that is not whole soon is given up."""
        super().shutdown()
        self._stopping = True
        if self._phase is _Phase.BODY:
            self._expect(STOP_SECONDS)
        elif self.transport.is_closing():
            self._abort_soon()
        if self._stalled is not None:
            self._watch()

    def hang_up(self) -> None:
        """End the connection although its answer has no end; what of that is on its way has a moment to leave."""
        if self._stopping:
            self.transport.abort()
        else:
            self.transport.close()
            self._abort_soon()

    async def pass_on(self, framed: bytes) -> None:
        """Send a chunk of the answer's body, with its framing, as `send` would; to a client that has left, nothing."""
        if self.flow.write_paused:
            await self.flow.drain()
        if self._answering is not None and not self._answering.disconnected:
            self.transport.write(framed)

    def pause_writing(self) -> None:
        """Hold up the answer, and cut it off where the client takes nothing of it for too long."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        self._go_on_taking()
        if self._answering is None:
            self._see_off()

    def _see_off(self) -> None:
        """Watch what waits of an answer that was written as a whole: to close the connection would wait for it."""
        if self.transport.get_write_buffer_size():
            self._watch()

    def _watch(self) -> None:
        self._go_on_taking()
        seconds = STOP_SECONDS if self._stopping else TAKE_SECONDS
        self._stalled = self.loop.call_later(seconds, self._stall, _confirmed(self.transport))

    def _stall(self, confirmed: int) -> None:
        self._stalled = None
        if not self.transport.get_write_buffer_size():
            return
        if _confirmed(self.transport) > confirmed:
            self._watch()
        else:
            self.transport.abort()

    def _go_on_taking(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _abort_soon(self) -> None:
        self._expect(None)
        seconds = GOODBYE_SECONDS if self._stopping else STOP_SECONDS
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and hold the sender to the bounds while a request is incomplete."""
        self._unset_keepalive_if_required()
        if self._phase is _Phase.REFUSED:
            self.on_body(data)
        else:
            self._parse_within_bounds(data)

    def _parse_within_bounds(self, data: bytes) -> None:
        self._progressed = False
        self._chunk = len(data)
        self._since_complete += self._chunk
        self._parse(data)
        self._overhead = 0 if self._progressed else self._overhead + len(data)
        if self._phase is _Phase.REFUSED:
            return
        if self._overhead > HEADER_BYTES:
            self._refuse()
        elif self._deadline is None and (self._phase is not _Phase.IDLE or self._overhead):
            self._expect(BODY_SECONDS if self._phase is _Phase.BODY else HEADER_SECONDS)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserError:
            self._refuse()
        except HttpParserUpgrade as offer:
            self._decline_upgrade(data[offer.args[0] :])

    def _decline_upgrade(self, rest: bytes) -> None:
        """Parse a request anew without its offer, which a server may ignore (RFC 9110, section 7.8).

        With the offer the parser ends the request at its header section, and would take its body for the next one.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse()
            return
        fields = b"".join(name + b": " + value + b"\r\n" for name, value in self.headers if name != b"upgrade")
        version = self.parser.get_http_version().encode()
        self._parse(b"%b %b HTTP/%b\r\n%b\r\n%b" % (method, self.url, version, fields, rest))

    def on_message_begin(self) -> None:
        """Open the scope of a request and put the TLS extension into it (ASGI TLS extension 0.2)."""
        super().on_message_begin()
        # After a refusal the next request may come in the same piece of data.
        self._unset_keepalive_if_required()
        if self._tls is not None:
            self.scope.setdefault("extensions", {})["tls"] = self._tls
        self.scope[CONNECTION] = self  # type: ignore[typeddict-unknown-key]
        self._phase = _Phase.HEADER
        self._progressed = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field, without the white space that may follow its value (RFC 9110, section 5.5)."""
        name, value = name.lower(), value.rstrip(b" \t")
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Keep the target as it was received; what no operation can have is noted as a fault."""
        if self.parser.should_upgrade():
            return
        self.scope[TARGET] = self.url  # type: ignore[typeddict-unknown-key]
        if self._is_faulty():
            self.scope[FAULT] = True  # type: ignore[typeddict-unknown-key]
        else:
            self._dropping = self._turn_away()
        if not self._dropping:
            super().on_headers_complete()
        self._phase = _Phase.BODY
        self._progressed = True
        self._expect(None)
        # Trailer fields are no header fields (RFC 9110, section 6.5.1): they go to a list that nobody reads.
        self.headers = []

    def _turn_away(self) -> bool:
        """Answer a request that is refused, as soon as its header section is there, where that is a simple matter.

        Its body is dropped by the parser; a task, a scope or a log line of its own it has not. All else that is refused
        goes on to its endpoint.
        """
        method = self.parser.get_method().decode("ascii")
        if self.door is None or not self.door.refuses(method):
            return False
        waits = self.cycle is not None and not self.cycle.response_complete
        if waits or self.flow.write_paused or self._stopping or not self.parser.should_keep_alive():
            return False
        self.scope["path"] = self.url.partition(b"?")[0].decode("ascii")
        # A client of HTTP/1.0 waits for the end of its connection, whatever it asked for.
        self.scope["http_version"] = self.parser.get_http_version()
        exchange = Exchange(self.scope, _receive_nothing)  # type: ignore[arg-type]
        answer = self.door.refusal(method, exchange, self._preamble())
        if answer is None:
            return False
        self.transport.write(answer)
        if self._stalled is None:
            self._see_off()
        # As the listener does: left in it, the connection would be a cycle that waits for the collector.
        exchange.scope.pop(CONNECTION, None)
        return True

    def _preamble(self) -> bytes:
        return b"HTTP/1.1 503 Service Unavailable\r\n" + b"".join(
            b"%b: %b\r\n" % field for field in self.server_state.default_headers
        )

    def _after_refusal(self, door: Door) -> None:
        """Wait for the next request, for a while without reading where the last refusal was not heeded."""
        self._dropping = False
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        before, self._refused_at = self._refused_at, time.perf_counter()
        if self._refused_at - before < AT_ONCE_SECONDS:
            self.flow.pause_reading()
            self._refused_at += REST_SECONDS
            door.rest(self._read_on)

    def _read_on(self) -> None:
        if not self.transport.is_closing() and not self.pipeline:
            self.flow.resume_reading()

    def _is_faulty(self) -> bool:
        return (
            not self.url.startswith(b"/")
            or b"#" in self.url
            or self.parser.get_http_version() not in {"1.0", "1.1"}
            # What has come in all bounds a section that is then not measured.
            or (self._since_complete > HEADER_BYTES and self._section_size() > HEADER_BYTES)
        )

    def _section_size(self) -> int:
        return len(self.url) + 4 * len(self.headers) + sum(map(len, chain.from_iterable(self.headers)))

    def on_body(self, body: bytes) -> None:
        """Take some of the body."""
        self._progressed = True
        if not self._dropping:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request without a deadline of our own: the keep-alive time-out holds until it begins."""
        if self.parser.should_upgrade():
            return
        self._phase = _Phase.IDLE
        # Some of the next request may have come with the end of this one.
        self._since_complete = self._chunk
        self._expect(None)
        if self._dropping and self.door is not None:
            self._after_refusal(self.door)
            return
        super().on_message_complete()
        if self.door is not None and self._answering is self.cycle and not self.cycle.response_complete:
            self.door.take(self.cycle.scope)  # type: ignore[arg-type]

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        if self.door is not None:
            if self.door.refuses(cycle.scope["method"]):
                cycle.scope[REFUSED] = True  # type: ignore[typeddict-unknown-key]
            elif not cycle.more_body:
                self.door.take(cycle.scope)  # type: ignore[arg-type]
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Go on with the next request of the connection; no more is read while others wait behind it.

        uvicorn reads on after every answer, so that what is sent faster than it is answered would pile up.
        """
        self._answering = None
        super().on_response_complete()
        self._see_off()
        if self.pipeline:
            self.flow.pause_reading()
        # A TLS session that ends takes and drops whatever still comes, for half a minute.
        late = self._stopping or self._phase is _Phase.BODY
        if self._tls is not None and late and self.transport.is_closing():
            self._abort_soon()

    def _refuse(self) -> None:
        """Let the listener answer what the parser refused, after what came before it on the connection."""
        self._expect(None)
        if self._phase is not _Phase.BODY:
            self._open_refused()
        self._phase = _Phase.REFUSED
        self.cycle.scope[FAULT] = True  # type: ignore[typeddict-unknown-key]
        self.cycle.keep_alive = False
        self.cycle.message_event.set()
        if self.cycle.response_complete:
            self.transport.close()

    def _open_refused(self) -> None:
        """Make a request of a header section that the parser gave up; its target need not be one that can be parsed."""
        if self._phase is _Phase.IDLE:
            self.on_message_begin()
        target, self.url = self.url, b"/"
        super().on_headers_complete()
        self.scope["path"] = target.decode("latin-1")
        self.scope["method"] = self.scope["method"] if target else "-"

    def _expect(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._too_slow, seconds) if seconds is not None else None

    def _too_slow(self, seconds: float) -> None:
        """End a connection whose sender is late, unless it is the server that does not read."""
        if self.flow.read_paused:
            self._expect(seconds)
            return
        self.transport.close()
        if self._tls is not None:
            self._abort_soon()


async def _receive_nothing() -> Message:
    raise ClientLeft


def _confirmed(transport: asyncio.Transport) -> int:
    """Return how many bytes the other end has taken so far, where the system tells, else 0."""
    try:
        with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as connection:
            state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except (AttributeError, OSError):
        return 0
    return int.from_bytes(state[_CONFIRMED], sys.byteorder)


def _tls_extension(tls_object: ssl.SSLObject) -> dict[object, object]:
    certificate = tls_object.getpeercert(binary_form=True)
    return {
        "server_cert": None,
        "client_cert_chain": [ssl.DER_cert_to_PEM_cert(certificate)] if certificate else [],
        "client_cert_name": None,
        "client_cert_error": None,
        "tls_version": _TLS_VERSIONS.get(tls_object.version() or ""),
        "cipher_suite": None,
    }
