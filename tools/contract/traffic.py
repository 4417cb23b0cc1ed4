"""Puts the proxy and its recorder together: `gatehouse check traffic` without its options."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import httpx

from handlers.gateway.server import bind
from tools.contract.document import APIS, UnusableDocumentError, own, read
from tools.contract.house import ListenerName
from tools.contract.proxy import Proxy, Server
from tools.contract.recorder import Finding, Recorder
from tools.settings import Bind

__all__ = ["Finding", "UnusableDocumentError", "reachable", "recorder", "run"]

CONNECT_SECONDS: Final = 5.0


def recorder(files: Sequence[Path], listener: ListenerName, *, strict_requests: bool) -> Recorder:
    """Return what holds exchanges to documents: those in files, or Gatehouse's own as the listener serves them.

    Raises UnusableDocumentError.
    """
    if files:
        return Recorder([read(file) for file in files], strict_requests=strict_requests)
    return Recorder([own(api) for api in APIS], listener, strict_requests=strict_requests)


def reachable(upstream: str) -> bool:
    """Tell whether anybody takes connections there."""
    url = httpx.URL(upstream)
    try:
        with socket.create_connection((url.host, url.port or {"http": 80, "https": 443}[url.scheme]), CONNECT_SECONDS):
            return True
    except OSError:
        return False


def run(
    upstream: str,
    recorder: Recorder,
    listen: Bind,
    context: ssl.SSLContext | None,
    ready: Callable[[str], None],
    tell: Callable[[Finding], None],
) -> int:
    """Pass on what comes until a signal ends it; returns the number of findings, each of which was told.

    Raises OSError, with the address, where that is not to be had.
    """
    found: list[Finding] = []

    def note(finding: Finding) -> None:
        found.append(finding)
        tell(finding)

    try:
        opened = bind(listen.host, listen.port)
    except OSError as error:
        # The command tells a fault with the name of what it is about.
        number = error.errno or 0
        raise OSError(number, os.strerror(number), str(listen)) from None
    with opened:
        ready(f"http://{Bind(listen.host, opened.getsockname()[1])}")
        Server(Proxy(upstream, recorder, note, context)).run([opened])
    return len(found)
