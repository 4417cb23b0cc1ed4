"""A small document whose listener has a guard, with an operation that answers by a stream of events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from msgspec import Struct

from generated.runtime import Answer, Incoming, Operation, Problem, Scheme, Stream
from handlers.gateway.faults import Api, Fault
from storage.errors import Unavailable

CODE = {"Authorization": "Bearer open"}

_TEXT = {"type": "string"}

CONTRACT: dict[str, Any] = {
    "openapi": "3.1.1",
    "info": {"title": "The gate", "version": "1.0.0"},
    "paths": {"/v1/gate": {"get": {}, "delete": {}}, "/v1/gate/events": {"get": {}}},
    "components": {
        "schemas": {
            "Problem": {
                "type": "object",
                "properties": {
                    **dict.fromkeys(("code", "detail", "title", "type", "requestId"), _TEXT),
                    "status": {"type": "integer"},
                },
            }
        }
    },
    "x-problems": {
        code: {"status": status, "title": f"Title of {code}", "type": f"urn:test:{code.lower()}", "headers": headers}
        for code, status, headers in (
            ("INVALID_REQUEST", 400, {}),
            ("CODE_REFUSED", 401, {"WWW-Authenticate": None}),
            ("NOT_FOUND", 404, {}),
            ("METHOD_NOT_ALLOWED", 405, {"Allow": None}),
            ("CODE_LOCKED", 429, {"Retry-After": None}),
            ("INTERNAL", 500, {}),
        )
    },
}


def _problem_class(code: str) -> type[Problem]:
    entry = CONTRACT["x-problems"][code]
    members = {name: entry[name] for name in ("status", "title", "type")}
    return type(code, (Problem,), {**members, "code": code, "trace_member": "requestId"})


PROBLEMS = {code: _problem_class(code) for code in CONTRACT["x-problems"]}


class Seen(Struct, frozen=True, kw_only=True):
    principal: str
    accept: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Whoever has the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enter:
    principal: Code
    accept: str | None
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    principal: Code
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    status: ClassVar[Literal[200]] = 200
    body: Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    status: ClassVar[Literal[200]] = 200
    events: Stream[Seen]
    cache_control: Literal["no-store"] = "no-store"


_SCHEME = Scheme(name="gateCode", field="gate_code", problem="CODE_REFUSED", header="Authorization")


def _operation(name: str, method: str, path: str, request: type, answer: Answer, *, accept: bool = False) -> Operation:
    return Operation(
        id=name,
        name=name,
        method=method,
        path=path,
        listeners=("installer",),
        schemes=(_SCHEME,),
        parameters=(),
        body=None,
        request=request,
        answers=(answer,),
        problems=tuple(PROBLEMS[code] for code in ("INVALID_REQUEST", "CODE_REFUSED", "CODE_LOCKED", "INTERNAL")),
        accept=accept,
    )


_ENTERED = Answer(response=Entered, status=200, media_type="application/json", headers=(), content="body")
_FOLLOWED = Answer(
    response=Followed,
    status=200,
    media_type="text/event-stream",
    headers=(("Cache-Control", "cache_control"),),
    content="events",
)

FAULTS: Mapping[Fault, Sequence[str]] = {
    **dict.fromkeys(Fault, ("INTERNAL",)),
    Fault.NOT_FOUND: ["NOT_FOUND"],
    Fault.METHOD_NOT_ALLOWED: ["METHOD_NOT_ALLOWED"],
    Fault.MALFORMED: ["INVALID_REQUEST"],
    Fault.PARAMETERS: ["INVALID_REQUEST"],
}


class Gate:
    """The handlers, and the authenticator of the guard; `source` is what the stream's events come from."""

    def __init__(self) -> None:
        self.asked = 0
        self.source: Callable[[], AsyncIterator[bytes]]

    async def gate_code(self, incoming: Incoming) -> Code | None:
        self.asked += 1
        match [value for name, value in incoming.headers if name == b"authorization"]:
            case [b"Bearer open"]:
                return Code()
            case [b"Bearer again"]:
                raise PROBLEMS["CODE_LOCKED"]("Wait.", headers={"Retry-After": "7"})
            case [b"Bearer outage"]:
                raise Unavailable("database is locked")
            case [b"Bearer fault"]:
                raise ValueError("of the guard")
            case [b"Bearer stranger"]:
                raise PROBLEMS["NOT_FOUND"]("No operation documents it.")
        return None

    async def enter(self, request: Enter) -> Entered:
        return Entered(body=Seen(principal=type(request.principal).__name__, accept=request.accept))

    async def leave(self, request: Enter) -> Entered:
        return await self.enter(request)

    async def follow(self, _: Follow) -> Followed:
        return Followed(events=Stream(self.source()))


def gate_api(gate: Gate) -> Api:
    """Return the document with the gate behind it, as a listener takes it."""
    return Api(
        name="gate",
        prefix="",
        contract=CONTRACT,
        operations=(
            _operation("enter", "GET", "/v1/gate", Enter, _ENTERED, accept=True),
            _operation("leave", "DELETE", "/v1/gate", Enter, _ENTERED, accept=True),
            _operation("follow", "GET", "/v1/gate/events", Follow, _FOLLOWED),
        ),
        service=gate,
        authenticators=gate,
        schemes={"gateCode": "installer"},
        faults=FAULTS,
        guard="gateCode",
    )
