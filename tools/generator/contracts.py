"""What the generator has understood of a document, in the words of the code that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tools.generator.documents import Document

Location: TypeAlias = Literal["path", "query", "header"]
Kind: TypeAlias = Literal["string", "integer", "boolean"]
Content: TypeAlias = Literal["none", "body", "events"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field or keyword as code: `annotation` and `default` are expressions, `wire` is the document's name."""

    wire: str
    name: str
    annotation: str
    default: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterContract:
    """One parameter of an operation; `pointer` leads to its schema."""

    field: Field
    location: Location
    kind: Kind
    required: bool
    pointer: str
    problem: str | None
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyContract:
    """A request body; `annotation` is what all of its media types become.

    `media_types` maps each to the pointer of its schema, or to None where that is not one of the body as it is.
    """

    required: bool
    limit: int
    canonical: bool
    problem: str | None
    media_types: dict[str, str | None]
    annotation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContract:
    """One documented success: a status with one media type or none."""

    class_name: str
    status: int
    media_type: str | None
    description: str
    headers: tuple[Field, ...]
    content: Content
    annotation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemContract:
    """One code of the catalogue: `fixed` headers never differ, `given` headers and `members` are keywords.

    A header that is neither is the gateway's to give.
    """

    code: str
    class_name: str
    status: int
    title: str
    type: str
    fixed: dict[str, str]
    given: tuple[Field, ...]
    members: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeContract:
    """One security scheme and the principal that it gives; `header` carries the credential, where one does."""

    name: str
    field: str
    class_name: str
    description: str
    problem: str
    header: str | None
    principal: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationContract:
    """One operation; `problems` are in the order of status, then of the document."""

    id: str
    name: str
    tag: str
    summary: str
    description: str
    method: str
    path: str
    listeners: tuple[str, ...]
    schemes: tuple[SchemeContract, ...]
    parameters: tuple[ParameterContract, ...]
    body: BodyContract | None
    answers: tuple[AnswerContract, ...]
    problems: tuple[ProblemContract, ...]

    @property
    def has_choice(self) -> bool:
        """Whether a status of success has several media types, among which the client and not the body chooses."""
        chosen_by_body = self.body is not None and len(self.body.media_types) > 1
        return not chosen_by_body and len({answer.status for answer in self.answers}) < len(self.answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContract:
    """One document; `models` are the names of its schemas, `trace_member` is its problems' word for the trace id."""

    document: Document
    name: str
    title: str
    summary: str
    models: tuple[str, ...]
    trace_member: str
    schemes: tuple[SchemeContract, ...]
    problems: tuple[ProblemContract, ...]
    operations: tuple[OperationContract, ...]
