"""The few classes that every generated module is made of; what runs them is the gateway's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar


class Problem(Exception):
    """A documented refusal; each subclass is one code of a document's `x-problems`."""

    code: ClassVar[str]
    status: ClassVar[int]
    type: ClassVar[str]
    title: ClassVar[str]
    trace_member: ClassVar[str]

    def __init__(
        self,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, object] | None = None,
    ) -> None:
        """Keep the sentence for the caller, the headers by wire name and the members beyond RFC 9457's own."""
        super().__init__(detail)
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = dict(members or {})


class Incoming(Protocol):
    """What an authenticator may look at."""

    @property
    def method(self) -> str:
        """The method as received."""

    @property
    def target(self) -> bytes:
        """The request target as received: path, and `?` and query where there is one."""

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Names in lower case, values without outer white space, in order of arrival."""

    @property
    def path_parameters(self) -> Mapping[str, str]:
        """Decoded values by the document's name of the parameter."""

    @property
    def client(self) -> str:
        """The address of the peer."""

    @property
    def tls(self) -> Mapping[str, Any] | None:
        """The TLS extension of ASGI; None on a connection without TLS."""

    async def body(self) -> bytes:
        """The whole body, read within the limit of the operation."""


EventT = TypeVar("EventT")


@dataclass(frozen=True, slots=True)
class Stream(Generic[EventT]):
    """Server-sent events, already encoded, in chunks of whole ones: however many read them, each is encoded once."""

    chunks: AsyncIterator[bytes]


PrincipalT = TypeVar("PrincipalT")

# None is a refusal: the gateway answers with the problem of the scheme.
Authenticator: TypeAlias = Callable[[Incoming], Awaitable[PrincipalT | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A security scheme that an operation accepts."""

    name: str
    field: str
    problem: str
    header: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter: its wire name, its field of Request, and the JSON pointer of its schema in contract.json."""

    name: str
    location: Literal["path", "query", "header"]
    field: str
    kind: Literal["string", "integer", "boolean"]
    required: bool
    pointer: str
    problem: str | None
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A request body: its limit in bytes, the schema pointer of each media type, and the type that it becomes.

    There is no pointer for text whose schema is that of what it stands for: its handler holds it to that.
    """

    required: bool
    limit: int
    canonical: bool
    problem: str | None
    media_types: Mapping[str, str | None]
    model: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A documented success: the class that stands for it, and how it goes on the wire."""

    response: type
    status: int
    media_type: str | None
    headers: tuple[tuple[str, str], ...]
    content: Literal["none", "body", "events"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The whole contract of an operation as a table; `accept`: Request tells which media types the client accepts."""

    id: str
    name: str
    method: str
    path: str
    listeners: tuple[str, ...]
    schemes: tuple[Scheme, ...]
    parameters: tuple[Parameter, ...]
    body: Body | None
    request: type
    answers: tuple[Answer, ...]
    problems: tuple[type[Problem], ...]
    accept: bool = False
