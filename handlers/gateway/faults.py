"""What an API is to the gateway, and what it answers where the gateway, not a handler, finds a fault."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from generated.runtime import Operation
from storage.errors import AuditUnavailable, Overloaded, StorageError


class Fault(Enum):
    """A fault that the gateway finds by itself; each API says with which codes it answers (see `Api.faults`)."""

    NOT_FOUND = "No operation of this listener has that path."
    METHOD_NOT_ALLOWED = "The path does not carry that method; Allow names those it carries."
    MALFORMED = "The request is not well-formed HTTP/1.1."
    PARAMETERS = "A parameter does not satisfy the document."
    MEDIA_TYPE = "The body's media type or content encoding is not one that the operation takes."
    BODY = "The body does not satisfy the document."
    TOO_LARGE = "The body is longer than the operation takes."
    FAILURE = "The server failed to answer; the log has the trace id."
    UNAVAILABLE = "The storage did not answer; try again."
    OVERLOADED = "Too many requests wait for the storage; try again."
    AUDIT_UNAVAILABLE = "The audit file cannot be written; the work may stand, and the same request again finds out."


# Seconds until the fault can have passed: a queue drains within one, storage and files need an operator's time.
RETRY_AFTER: Mapping[Fault, int] = {Fault.UNAVAILABLE: 5, Fault.OVERLOADED: 1, Fault.AUDIT_UNAVAILABLE: 5}


def storage_fault(error: StorageError) -> Fault:
    """Return what a failure of storage is to a caller."""
    if isinstance(error, Overloaded):
        return Fault.OVERLOADED
    return Fault.AUDIT_UNAVAILABLE if isinstance(error, AuditUnavailable) else Fault.UNAVAILABLE


class Finding(NamedTuple):
    """Where a request is at fault, as `links[0].interface` ("" is the whole), and why; without received values."""

    field: str
    message: str


# What finds the faults of a body that no schema can tell; it is asked of any JSON value.
Meaning: TypeAlias = Callable[[Any], Iterable[Finding]]


class Plain(NamedTuple):
    """The bodies of an operation that are taken without a look at their schema, which would have nothing against them.

    `model` is the generated type, or one derived from it, that refuses members it does not know; it has no members of
    any type, no numbers, and no default but UNSET. `holds` tells of a value that it is as documented, by what the types
    do not say.
    """

    model: type[Any]
    holds: Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One code of a document's x-problems, with the member that carries the trace id in that document's Problem.

    `findings` tells whether it lists them, as its member `errors`.
    """

    code: str
    status: int
    title: str
    type: str
    trace_member: str
    headers: Mapping[str, str | int | None]
    findings: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One document with its code: what a listener needs to serve it.

    Where several share a listener, `prefix` tells the paths whose faults have this document's shape. `schemes` names
    the one listener on which each security scheme counts; the one that is the `guard` is asked of every request there,
    before it is routed. `faults` names the codes of each fault in order of preference: an operation is answered with
    the first that it documents, a path without an operation with the first. `meanings` are, by operationId, what JSON
    bodies are held to beside their schemas, `plain` what most bodies are held to instead. Of the operations in `shed`
    some are refused where more is asked than can be answered in good time.
    """

    name: str
    prefix: str
    contract: Mapping[str, Any]
    operations: Sequence[Operation]
    service: Any
    authenticators: Any
    schemes: Mapping[str, str]
    faults: Mapping[Fault, Sequence[str]]
    guard: str | None = None
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    plain: Mapping[str, Plain] = field(default_factory=dict)
    shed: Collection[str] = ()
    catalogue: Mapping[str, Entry] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "catalogue", _catalogue(self.contract))
        unknown = {code for codes in self.faults.values() for code in codes} - self.catalogue.keys()
        if unknown or set(self.faults) != set(Fault):
            raise ValueError(
                f"the faults of {self.name} are incomplete or name codes that x-problems lacks: {sorted(unknown)}"
            )

    def entry(self, fault: Fault, operation: Operation | None = None) -> Entry:
        """Return the catalogue entry with which `fault` is answered, for an operation or for a path that has none."""
        codes = self.faults[fault]
        if operation is None:
            return self.catalogue[codes[0]]
        documented = {problem.code for problem in operation.problems}
        code = next((code for code in codes if code in documented), None)
        if code is None:
            raise LookupError(f"{operation.id} documents none of {', '.join(codes)}")
        return self.catalogue[code]


def _catalogue(contract: Mapping[str, Any]) -> dict[str, Entry]:
    members = contract["components"]["schemas"]["Problem"]["properties"]
    trace_member = "traceId" if "traceId" in members else "requestId"
    return {
        code: Entry(
            code=code,
            status=entry["status"],
            title=entry["title"],
            type=entry["type"],
            trace_member=trace_member,
            headers=entry.get("headers", {}),
            findings="errors" in entry.get("members", ()),
        )
        for code, entry in contract["x-problems"].items()
    }
