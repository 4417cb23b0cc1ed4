"""Keeps account of every answer that came over a socket from a server of the tests, in one process of pytest.

Each counts as seen. Of those that are alike (operation, status, code, header names, and the form of the body) the first
is held to the document here; what a test itself asks of an answer is beside that.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Final

from tests.support.contract import APIS, ListenerName, own_document
from tests.support.wire import Answer, Listeners
from tools.contract.coverage import Coverage
from tools.contract.document import Cell, Reply, Request
from tools.contract.recorder import Recorder, shape_of

_listening: Final[dict[int, ListenerName]] = {}
_recorders: Final[dict[ListenerName, Recorder]] = {}
_findings: Final[list[str]] = []


def begins(port: int, listener: ListenerName) -> None:
    """Take what comes from a port for that listener's answers."""
    _listening[port] = listener


def ends(port: int) -> None:
    """Take what comes from a port for nobody's answers."""
    _listening.pop(port, None)


def start() -> None:
    """Keep account of answers from now on."""
    Listeners.heard = staticmethod(_heard)


def gathered() -> dict[str, Any]:
    """Return what was met and found in this process, in plain values that one process can hand to another."""
    cells = [tuple(cell) for cell in set().union(*(each.met for each in _recorders.values()))]
    exchanges = sum(each.exchanges for each in _recorders.values())
    return {"cells": cells, "findings": _findings, "exchanges": exchanges}


def coverage(cells: list[tuple[str, ...]]) -> Coverage:
    """Hold what was met in all processes to all that the documents promise."""
    return Coverage((cell for api in APIS for cell in own_document(api).cells()), {Cell(*each) for each in cells})


def _heard(port: int, sent: bytes, answer: Answer) -> None:
    listener = _listening.get(port)
    request = _request(sent)
    if listener is None or request is None:
        return
    if listener not in _recorders:
        _recorders[listener] = Recorder([own_document(api) for api in APIS], listener, alike=_alike)
    reply = Reply(answer.status, answer.fields, answer.body)
    for finding in _recorders[listener].note(request, reply):
        _findings.append(f"{finding} [{os.environ.get('PYTEST_CURRENT_TEST', 'between tests')}]")


def _request(sent: bytes) -> Request | None:
    """Read the first line of a request; None where it is none of HTTP/1.1."""
    with contextlib.suppress(ValueError):
        method, target, version = sent.partition(b"\r\n")[0].decode("ascii").split(" ")
        if version.startswith("HTTP/1.") and target.startswith("/"):
            return Request(method, target, (), None)
    return None


def _alike(operation: str, reply: Reply) -> object:
    return operation, reply.status, reply.code, frozenset(name for name, _ in reply.fields), shape_of(reply.body)
