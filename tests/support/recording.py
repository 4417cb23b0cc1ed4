"""Keeps account of every answer that came over a socket from a server of the tests, in one process of pytest.

Each counts as seen. Of those that are alike (operation, status, code, header names, and the form of the body) the first
is held to the schemas here; what a test itself asks of an answer is beside that.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.support.contract import APIS, ListenerName, own_document
from tests.support.wire import Answer, Listeners
from tools.contract.coverage import Coverage
from tools.contract.document import Cell, Reply, Request
from tools.contract.recorder import Recorder, shape_of


class Gathered(NamedTuple):
    """What was met and found, in plain values that one process can hand to another."""

    cells: list[tuple[str, ...]]
    findings: list[str]
    answers: int


class Account:
    """Who listens on which port, and what has come from there."""

    def __init__(self) -> None:
        self._listening: dict[int, ListenerName] = {}
        self._recorders: dict[ListenerName, Recorder] = {}
        self._findings: list[str] = []

    def begins(self, port: int, listener: ListenerName) -> None:
        """Take what comes from a port for that listener's answers."""
        self._listening[port] = listener

    def ends(self, port: int) -> None:
        """Take what comes from a port for nobody's answers."""
        self._listening.pop(port, None)

    def heard(self, port: int, sent: bytes, answer: Answer) -> None:
        """Take an answer to what was sent to a port."""
        listener, request = self._listening.get(port), _request(sent)
        if listener is None or request is None:
            return
        if listener not in self._recorders:
            self._recorders[listener] = Recorder([own_document(api) for api in APIS], listener, alike=_alike)
        reply = Reply(answer.status, answer.fields, answer.body)
        for finding in self._recorders[listener].note(request, reply):
            self._findings.append(f"{finding} [{os.environ.get('PYTEST_CURRENT_TEST', 'between tests')}]")

    def gathered(self) -> Gathered:
        """Return what has come of it."""
        cells: set[Cell] = set().union(*(each.met for each in self._recorders.values()))
        answers = sum(each.exchanges for each in self._recorders.values())
        return Gathered([tuple(cell) for cell in cells], self._findings, answers)


ACCOUNT: Final = Account()


def start() -> None:
    """Keep account of answers from now on."""
    Listeners.heard = ACCOUNT.heard


class Total:
    """What several processes have gathered, against all that the documents promise."""

    def __init__(self, parts: Sequence[Gathered]) -> None:
        self.findings = [finding for part in parts for finding in part.findings]
        self.answers = sum(part.answers for part in parts)
        met = {Cell(*cell) for part in parts for cell in part.cells}
        self.coverage = Coverage((cell for api in APIS for cell in own_document(api).cells()), met)

    @property
    def whole(self) -> bool:
        """Whether all of the documents was seen, and nothing else."""
        return not self.findings and not self.coverage.unseen


def _request(sent: bytes) -> Request | None:
    """Read the first line of a request; None where it is none of HTTP/1.1, which no operation has to do with."""
    with contextlib.suppress(ValueError):
        head = sent.partition(b"\r\n\r\n")[0]
        method, target, version = head.partition(b"\r\n")[0].decode("ascii").split(" ")
        if version.startswith("HTTP/1.") and target.startswith("/") and b"\r\nhost:" in head.lower():
            return Request(method, target, (), None)
    return None


def _alike(operation: str, reply: Reply) -> object:
    return operation, reply.status, reply.code, frozenset(name for name, _ in reply.fields), shape_of(reply.body)
