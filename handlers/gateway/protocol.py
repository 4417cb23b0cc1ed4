"""uvicorn's HTTP/1.1 protocol with what it lacks.

That is the raw request target, the client's certificate, bounds in bytes and seconds, and problems for what its parser
refuses.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from handlers.gateway.exchange import FAULT, TARGET, trace_id
from handlers.gateway.listener import Listener

HEADER_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
HEADER_BYTES: Final = 262_144

_TLS_VERSIONS: Final[Mapping[str, int]] = {"TLSv1.2": 0x0303, "TLSv1.3": 0x0304}


class GatewayProtocol(HttpToolsProtocol):
    """One connection of a listener."""

    _tls: dict[object, object] | None = None
    _deadline: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _in_header = True
    _in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the client's certificate and start waiting for a first request."""
        super().connection_made(transport)
        tls_object = transport.get_extra_info("ssl_object")
        if tls_object is not None:
            self._tls = _tls_extension(tls_object)
        self._expect(HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline with the connection."""
        self._expect(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and hold the sender to the bounds while a request is incomplete."""
        if self._in_header:
            self._header_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_header and self._header_bytes > HEADER_BYTES:
            self.send_400_response("header section too large")
        elif self._in_body or self._header_bytes:
            if self._deadline is None:
                self._expect(BODY_SECONDS if self._in_body else HEADER_SECONDS)
        else:
            self._expect(None)

    def on_message_begin(self) -> None:
        """Open the scope of a request and put the TLS extension into it (ASGI TLS extension 0.2)."""
        super().on_message_begin()
        if self._tls is not None:
            self.scope.setdefault("extensions", {})["tls"] = self._tls

    def on_headers_complete(self) -> None:
        """Keep the target as it was received; a form that no operation can have is noted as a fault."""
        self._in_header = False
        self._in_body = True
        self._header_bytes = 0
        self._expect(None)
        self.scope[TARGET] = self.url  # type: ignore[typeddict-unknown-key]
        if not self.url.startswith(b"/") or b"#" in self.url or self.parser.get_http_version() not in {"1.0", "1.1"}:
            self.scope[FAULT] = True  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Wait for the next request without a deadline of our own: the keep-alive time-out holds until it begins."""
        self._in_header = True
        self._in_body = False
        self._expect(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words are plain text; ours are the listener's problem.
        """Answer what the parser refused with the listener's problem and end the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.close()
            return
        listener: Listener = self.config.app  # type: ignore[assignment]
        path = self.url.decode("ascii", errors="replace") if self.headers is not None else ""
        trace = trace_id(self.headers or [])
        rendered = listener.malformed(path, trace)
        fields = [*self.server_state.default_headers, *rendered.headers, (b"x-request-id", trace.encode())]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in fields)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + rendered.body)
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: a client may offer an upgrade, and a server may ignore it (RFC 9110, section 7.8)."""

    def _expect(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._too_slow) if seconds is not None else None

    def _too_slow(self) -> None:
        self.transport.close()


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
