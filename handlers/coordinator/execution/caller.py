"""Asks receivers over HTTP: whatever one does, it costs no more than the connection's time and bytes.

Nothing that is sent or received is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import ssl
import stat
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from handlers.coordinator.execution.command import HEADERS
from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.execution.exchange import Answered, Encoded, Exchange, NotConnected, TooLarge, Unanswered
from storage.execution.records import Command

MAX_TOKEN_BYTES: Final = 8_192

_TOKEN: Final = re.compile(rb"[!-~]{1,%d}" % MAX_TOKEN_BYTES)
_SECONDS: Final = re.compile(r"[0-9]+")
# Of more digits the first are enough: nobody waits for so many seconds.
_DIGITS: Final = 9
# The transport tells of these: before it writes the first byte of a request, after all that it takes to connect; and
# when it has a connection of TCP, before a handshake of TLS.
_SENDING: Final = "http11.send_request_headers.started"
_CONNECTED: Final = "connection.connect_tcp.complete"

_log = logging.getLogger(__name__)


class Caller:
    """Keeps no connection open between two calls.

    A receiver may close one at the moment of the next call, and then nobody knows whether that was sent.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch, by which a Retry-After that is a date is measured."""
        self._clock = clock
        # Each is made for its first call: to read the public authorities takes time and memory.
        self._transports: dict[Path | None, httpx.AsyncHTTPTransport] = {}

    async def send(self, connection: Connection, command: Command) -> Exchange:
        """Send a command as it was prepared; raises nothing, whatever the receiver does."""
        return await self._exchange(connection, command.method, command.url, command.headers, command.body)

    async def receipt(self, connection: Connection, command: Command) -> Exchange:
        """Ask for the receipt of a command, over a connection that has a receipt path; raises nothing, as for send."""
        assert connection.receipt_path is not None  # noqa: S101 - the settings have it wherever it is asked for
        path = connection.receipt_path.replace("{key}", quote(command.key, safe=""))
        return await self._exchange(connection, "GET", connection.base_url + path, HEADERS, None)

    async def close(self) -> None:
        """Close what is open."""
        for transport in self._transports.values():
            await transport.aclose()

    async def _exchange(
        self, connection: Connection, method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes | None
    ) -> Exchange:
        course = _Course()
        try:
            transport = self._trusting(connection.ca_file)
            request = httpx.Request(
                method,
                url,
                headers=[*headers, *_authorization(connection.token_file), ("Connection", "close")],
                content=body,
                extensions={"trace": course.note},
            )
            async with asyncio.timeout(connection.timeout_seconds):
                return await self._ask(transport, request, connection.max_response_bytes)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, _TokenError):
            return Unanswered() if course.sending else NotConnected()
        finally:
            await course.close()

    def _trusting(self, ca_file: Path | None) -> httpx.AsyncHTTPTransport:
        """Return the transport that trusts the authorities of a file, as they are at its first call, or the public."""
        if ca_file not in self._transports:
            self._transports[ca_file] = _transport(verify=True if ca_file is None else _context(ca_file))
        return self._transports[ca_file]

    async def _ask(self, transport: httpx.AsyncHTTPTransport, request: httpx.Request, limit: int) -> Exchange:
        response = await transport.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - what an asynchronous transport gives
        try:
            return await self._read(response, response.stream, limit)
        finally:
            await response.stream.aclose()

    async def _read(self, response: httpx.Response, stream: httpx.AsyncByteStream, limit: int) -> Exchange:
        status = response.status_code
        if not 200 <= status < 600:
            return Unanswered()
        if status >= 300:
            return Answered(status, retry_after=self._retry_after(response.headers.get("Retry-After")))
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            return Encoded(status)
        body = bytearray()
        async for piece in stream:
            body += piece
            if len(body) > limit:
                return TooLarge(status)
        return Answered(status, bytes(body))

    def _retry_after(self, value: str | None) -> int | None:
        """Return the milliseconds of a Retry-After in seconds or as a date (RFC 9110, section 10.2.3)."""
        if value is None:
            return None
        if _SECONDS.fullmatch(value):
            return int(value.lstrip("0")[:_DIGITS] or 0) * 1000
        try:
            # Some forms of a date name no zone: all of HTTP are in GMT.
            date = parsedate_to_datetime(value).replace(tzinfo=UTC)
            return max(0, round((date.timestamp() - self._clock()) * 1000))
        except (OverflowError, ValueError):
            return None


class _Course:
    """How far a request is, as the transport tells it (httpcore's extension `trace`)."""

    def __init__(self) -> None:
        self.sending = False
        self._open = contextlib.AsyncExitStack()

    async def note(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of an event."""
        if event == _SENDING:
            self.sending = True
        elif event == _CONNECTED:
            self._open.push_async_callback(info["return_value"].aclose)

    async def close(self) -> None:
        """Close the connection, if it is not yet: the transport leaves it open when it is stopped in a handshake."""
        await self._open.aclose()


def _transport(*, verify: ssl.SSLContext | bool) -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(
        verify=verify, trust_env=False, limits=httpx.Limits(max_connections=None, max_keepalive_connections=0)
    )


def _context(ca_file: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        _log.warning("the authority file %s cannot be used: %s", ca_file, error.strerror or error)
        raise


class _TokenError(Exception):
    """A token that cannot be sent; nothing is."""


def _authorization(file: Path | None) -> list[tuple[str, str]]:
    """Return the header with the token that the file has now."""
    if file is None:
        return []
    try:
        token = _content(file)
    except OSError as error:
        _log.warning("the token file %s cannot be read: %s", file, error.strerror)
        raise _TokenError from None
    if _TOKEN.fullmatch(token) is None:
        _log.warning("the token file %s has no token: one line of visible ASCII", file)
        raise _TokenError
    return [("Authorization", f"Bearer {token.decode()}")]


def _content(file: Path) -> bytes:
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError(0, "it is no regular file")
    with file.open("rb") as opened:
        content = opened.read(MAX_TOKEN_BYTES + 2)
    return content.removesuffix(b"\n")
