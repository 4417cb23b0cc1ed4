"""Reads what an operation gives: its successes, and the problems of the document's catalogue."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from http import HTTPStatus
from typing import Final

from tools.generator.annotations import annotation, literal, merged
from tools.generator.contracts import AnswerContract, Content, Field, ProblemContract
from tools.generator.documents import Node
from tools.generator.names import success_class
from tools.generator.reading.inputs import content_type, read_kind
from tools.generator.reading.naming import free_class, free_name

_PROBLEM_JSON: Final = "application/problem+json"
_EVENT_STREAM: Final = "text/event-stream"
_TRACE_MEMBERS: Final = ("traceId", "requestId")
# Without a value it names the realm of the listener, which the gateway knows and whoever raises the problem does not.
_CHALLENGE: Final = "www-authenticate"
# Without a value it is a number of seconds (RFC 9110, section 10.2.3) that each case has for itself.
_WAIT: Final = "retry-after"


def read_trace_member(root: Node) -> str:
    """Return the member of the Problem schema that holds the trace id."""
    properties = _problem_schema(root)["properties"]
    for name in _TRACE_MEMBERS:
        if properties.get(name) is not None:
            return name
    raise properties.refuse(f"has neither {' nor '.join(_TRACE_MEMBERS)}")


def _problem_schema(root: Node) -> Node:
    return root["components"]["schemas"]["Problem"]


def read_problems(root: Node, taken: Collection[str]) -> dict[str, ProblemContract]:
    """Read x-problems by code, in authored order; a class gets the suffix Problem where its name is taken."""
    properties = _problem_schema(root)["properties"]
    classes = set(taken)
    return {code: _read_problem(code, node, properties, classes) for code, node in root["x-problems"].items()}


def _read_problem(code: str, problem: Node, properties: Node, classes: set[str]) -> ProblemContract:
    keywords = {"self", "detail"}
    declared = problem.get("headers")
    headers = {} if declared is None else dict(declared.items())
    fixed = {wire: header.value for wire, header in headers.items() if isinstance(header.value, str)}
    return ProblemContract(
        code=code,
        class_name=free_class(problem, code, "Problem", classes),
        status=problem.integer("status"),
        title=problem.text("title"),
        type=problem.text("type"),
        fixed=fixed,
        given=tuple(
            _given_header(wire, header, keywords)
            for wire, header in headers.items()
            if wire not in fixed and not _is_of_the_listener(wire, header)
        ),
        members=tuple(_read_members(problem, properties, keywords)),
    )


def _is_of_the_listener(wire: str, header: Node) -> bool:
    return header.value is None and wire.lower() == _CHALLENGE


def _given_header(wire: str, header: Node, taken: set[str]) -> Field:
    name = free_name(header, wire, "header", taken)
    if header.value is None:
        return Field(wire=wire, name=name, annotation="int" if wire.lower() == _WAIT else "str")
    return Field(wire=wire, name=name, annotation="int", default=literal(header.of(int)))


def _read_members(problem: Node, properties: Node, taken: set[str]) -> Iterator[Field]:
    members = problem.get("members")
    for node in () if members is None else members.elements():
        wire = node.of(str)
        schema = properties.get(wire)
        if schema is None:
            raise node.refuse(f"{wire} is not a member of the Problem schema")
        yield Field(wire=wire, name=free_name(node, wire, "member", taken), annotation=annotation(schema))


def read_answers(operation: Node) -> tuple[AnswerContract, ...]:
    """Read the 2xx responses, one answer for each media type of each."""
    responses = operation["responses"]
    answers: dict[str, AnswerContract] = {}
    for key, node in responses.items():
        for answer in _read_success(int(key), node.resolved()) if _status(node, key) < 300 else ():
            if answer.class_name in answers:
                raise node.refuse(f"would have a second class {answer.class_name}: the media types are too much alike")
            answers[answer.class_name] = answer
    if not answers:
        raise responses.refuse("has no success")
    return tuple(answers.values())


def _status(response: Node, key: str) -> int:
    if key.isdecimal() and int(key) in {status.value for status in HTTPStatus}:
        status = int(key)
        if 200 <= status < 300 or status >= 400:
            return status
    raise response.refuse("a response is one status of 2xx, 4xx or 5xx: no default, no range, no other")


def _read_success(status: int, response: Node) -> Iterator[AnswerContract]:
    declared = response.get("content")
    media = {} if declared is None else dict(declared.items())
    headers = tuple(_read_headers(response))
    for media_type, node in media.items() or [(None, None)]:
        content, hint = _read_content(media_type, node)
        yield AnswerContract(
            class_name=success_class(status, media_type if len(media) > 1 else None),
            status=status,
            media_type=media_type,
            description=response.text("description"),
            headers=headers,
            content=content,
            annotation=hint,
        )


def _read_content(media_type: str | None, node: Node | None) -> tuple[Content, str | None]:
    if media_type is None or node is None:
        return "none", None
    if media_type == _EVENT_STREAM:
        return "events", annotation(node["x-item-schema"])
    return "body", content_type(media_type, node["schema"])


def _read_headers(response: Node) -> Iterator[Field]:
    taken = {"status", "body", "events"}
    headers = response.get("headers")
    for wire, node in () if headers is None else headers.items():
        header = node.resolved()
        schema = header["schema"]
        read_kind(schema)
        required = header.flag("required")
        hint = annotation(schema)
        yield Field(
            wire=wire,
            name=free_name(node, wire, "header", taken),
            annotation=hint if required else f"{hint} | UnsetType",
            default=_only_value(schema) if required else "UNSET",
            description=header.optional_text("description"),
        )


def _only_value(schema: Node) -> str | None:
    keywords = merged(schema)
    values = [keywords["const"]] if "const" in keywords else keywords.get("enum", [])
    return literal(values[0]) if len(values) == 1 else None


def read_refusals(operation: Node, catalogue: dict[str, ProblemContract]) -> tuple[ProblemContract, ...]:
    """Read the codes of the 4xx and 5xx responses; refuses one that the catalogue lacks or has under another status."""
    refusals: dict[str, ProblemContract] = {}
    for key, node in operation["responses"].items():
        status = _status(node, key)
        for code in _codes(node.resolved()) if status >= 400 else ():
            problem = catalogue.get(code)
            if problem is None or problem.status != status:
                raise node.refuse(f"{code} is not a code of status {status} in /x-problems")
            refusals[code] = problem
    return tuple(refusals.values())


def _codes(response: Node) -> list[str]:
    schema = response["content"][_PROBLEM_JSON]["schema"]
    parts = schema.get("allOf")
    for part in [schema] if parts is None else [schema, *parts.elements()]:
        properties = None if "$ref" in part.mapping() else part.get("properties")
        code = None if properties is None else properties.get("code")
        if code is not None:
            return [value.of(str) for value in code["enum"].elements()]
    raise schema.refuse("has no enum of codes beside the $ref of Problem")
