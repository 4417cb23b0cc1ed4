"""Holds exchanges to documents, and keeps what of the documents was seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from tools.contract import house
from tools.contract.coverage import Coverage
from tools.contract.document import Cell, Document, Place, Reply, Request
from tools.contract.house import ListenerName

Kind: TypeAlias = Literal["answer", "request", "undocumented"]

# How many answers are remembered as good ones.
_REMEMBERED: Final = 4096


class Finding(NamedTuple):
    """What does not conform: an answer, a request, or that there is an answer at all."""

    kind: Kind
    operation: str
    method: str
    path: str
    status: int
    message: str

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.status} ({self.operation or 'no operation'}): {self.message}"


class Found(NamedTuple):
    """Where a request belongs: the document, the path in it, and its operation; None where there is none."""

    document: Document
    template: str
    place: Place | None


class Recorder:
    """Takes exchanges, and tells what is wrong with each.

    With a `listener` the documents are Gatehouse's own and the answers that listener's. `alike` may give what makes an
    answer one of a kind, of which the first alone is held to the schemas, though each counts as seen; by default each
    is that differs from those before in more than its date and its identity.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        listener: ListenerName | None = None,
        *,
        alike: Callable[[str, Reply], object] | None = None,
        strict_requests: bool = False,
    ) -> None:
        self._documents = documents
        self._listener = listener
        self._alike = alike
        self._strict_requests = strict_requests
        self._good: set[object] = set()
        self.met: set[Cell] = set()
        self.exchanges = 0
        self.refused_requests = 0

    @property
    def coverage(self) -> Coverage:
        """What was seen so far of what the documents promise, on this listener where it is one."""
        return Coverage(
            (cell for each in self._documents for cell in each.cells() if self._reachable(each, cell)), self.met
        )

    def note(self, request: Request, reply: Reply) -> list[Finding]:
        """Take an exchange; returns what is wrong with it."""
        self.exchanges += 1
        found = self._found(request)
        if found is None:
            return self._outside(request, reply)
        self.met.update(self._met(found, request, reply))
        faults = [*self._house_faults(found, request, reply), *self._answer_faults(found, request, reply)]
        return [self._finding("answer", found.place, request, reply, fault) for fault in dict.fromkeys(faults)]

    def note_request(self, request: Request, reply: Reply) -> list[Finding]:
        """Hold a request to its operation, now that its answer is there.

        One that breaks the document and is refused is as it should be, unless requests are taken strictly.
        """
        found = self._found(request)
        if found is None or found.place is None:
            return []
        faults = found.document.faults_of_request(request)
        if faults and 400 <= reply.status < 500 and not self._strict_requests:
            self.refused_requests += 1
            return []
        told = "the document refuses this request" if reply.status >= 400 else "a request was taken that breaks it"
        return [self._finding("request", found.place, request, reply, f"{told}: {fault}") for fault in faults]

    def note_event(self, request: Request, reply: Reply, data: str) -> list[Finding]:
        """Hold the data of a server-sent event to the operation that it came from."""
        found = self._found(request)
        if found is None or found.place is None:
            return []
        fault = found.document.fault_of_event(found.place, data)
        return [] if fault is None else [self._finding("answer", found.place, request, reply, fault)]

    def _found(self, request: Request) -> Found | None:
        for document in self._meant(request.path):
            template = document.template(request.path)
            if template is not None:
                return Found(document, template, document.at(template).get(request.method))
        return None

    def _meant(self, path: str) -> Iterator[Document]:
        if self._listener is None:
            yield from self._documents
            return
        api = house.api_of(path, self._listener)
        yield from (each for each in self._documents if each.name == api)

    def _carries(self, found: Found, method: str) -> bool:
        return self._listener is None or method in house.carried(found.document, self._listener, found.template)

    def _answered(self, found: Found, request: Request, reply: Reply) -> list[Place]:
        """Return the operations that an answer is one of: those of the whole path where the method is none of it."""
        if found.place is not None and self._carries(found, request.method):
            return [found.place]
        if reply.status != 405 or request.method == "HEAD":
            return []
        places = [each for each in found.document.at(found.template).values() if self._carries(found, each.method)]
        return [each for each in places if found.document.response(each, 405) is not None]

    def _met(self, found: Found, request: Request, reply: Reply) -> Iterator[Cell]:
        for place in self._answered(found, request, reply):
            yield from found.document.met(place, reply)

    def _house_faults(self, found: Found, request: Request, reply: Reply) -> list[str]:
        if self._listener is None:
            return []
        return house.faults(found.document, self._listener, request.method, found.template, reply)

    def _answer_faults(self, found: Found, request: Request, reply: Reply) -> list[str]:
        kind = self._kind(found, request, reply)
        if kind in self._good:
            return []
        faults = [
            fault
            for place in self._answered(found, request, reply)
            for fault in found.document.faults_of_reply(place, reply)
        ]
        answered_by_itself = request.method in {"HEAD", "OPTIONS"} or reply.status in {404, 405, 501}
        if self._listener is None and found.place is None and not answered_by_itself:
            faults.append("the document does not have this method")
        if not faults:
            self._remember(kind)
        return faults

    def _outside(self, request: Request, reply: Reply) -> list[Finding]:
        if self._listener is None:
            wrong = [] if reply.status in {404, 405} else ["the documents do not have this path"]
        elif house.PLUMBING.fullmatch(request.path):
            wrong = []
        else:
            document = next(self._meant(request.path), None)
            wrong = [] if document is None else house.faults(document, self._listener, request.method, None, reply)
            if reply.status < 400:
                wrong.append("the documents do not have this path")
        return [self._finding("undocumented", None, request, reply, each) for each in wrong]

    def _kind(self, found: Found, request: Request, reply: Reply) -> object:
        if self._alike is not None:
            return self._alike(f"{request.method} {found.template}", reply)
        # The identity of Gatehouse's own answers is looked at each time, by the rules of the house.
        identity = "" if self._listener is None else reply.header("x-request-id") or ""
        return (found.document.name, found.template, request.method, reply.status, _digest(reply, identity.encode()))

    def _remember(self, kind: object) -> None:
        if len(self._good) >= _REMEMBERED:
            self._good.clear()
        self._good.add(kind)

    def _reachable(self, document: Document, cell: Cell) -> bool:
        if self._listener is None:
            return True
        place = next(each for each in document.places if each.name == cell.operation)
        return self._listener in place.content.get("x-listeners", ())

    def _finding(self, kind: Kind, place: Place | None, request: Request, reply: Reply, message: str) -> Finding:
        name = "" if place is None else place.name
        return Finding(kind, name, request.method, request.path, reply.status, message)


def shape(value: Any) -> object:
    """Return what values of one form have in common: their members and types, whatever the values themselves."""
    if isinstance(value, dict):
        return frozenset((name, shape(each)) for name, each in value.items())
    if isinstance(value, list):
        return ("list", frozenset(shape(each) for each in value))
    return type(value)


def shape_of(body: bytes | None) -> object:
    """Return the shape of a body that is JSON; any other has none but that it is there."""
    try:
        return shape(json.loads(body)) if body else body is None
    except (ValueError, RecursionError):
        return "other"


def _digest(reply: Reply, identity: bytes) -> bytes:
    """Return what two answers have in common that differ in their date and `identity` alone."""
    fields = repr([field for field in reply.fields if field[0] != "date"]).encode()
    content = fields + b"\n" + (b"-" if reply.body is None else reply.body)
    return hashlib.sha256(content.replace(identity, b"") if identity else content).digest()
