"""Holds each answer of a server to the coordinator's document, by openapi-core and by what design.md adds to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from openapi_core import Config, OpenAPI
from openapi_core.testing import MockRequest, MockResponse

from handlers.coordinator.api import coordinator_document
from tests.support.wire import Answer

DOCUMENT: Final[dict[str, Any]] = json.loads(coordinator_document())
PROBLEM: Final = "application/problem+json"
METHODS: Final = {"get", "post", "put", "patch", "delete"}


class Documented(NamedTuple):
    """One answer of an operation; `code` is "" for a success."""

    operation: str
    status: int
    code: str


class Place(NamedTuple):
    """Where an operation is, and its part of the document."""

    path: str
    method: str
    content: Mapping[str, Any]


def places() -> dict[str, Place]:
    """Every operation, by its operationId."""
    return {
        operation["operationId"]: Place(path, method.upper(), operation)
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }


def documented() -> Iterator[Documented]:
    """Give every answer that the document knows, in its order."""
    for name, place in places().items():
        for status, response in place.content["responses"].items():
            for code in _codes(resolved(response)):
                yield Documented(name, int(status), code)


def guarded() -> list[str]:
    """Give the operations that take the operator's token: those with an HTTP scheme."""
    schemes = DOCUMENT["components"]["securitySchemes"]
    return [
        name
        for name, place in places().items()
        for alternative in place.content.get("security", DOCUMENT.get("security", []))
        if any(schemes[scheme]["type"] == "http" for scheme in alternative)
    ]


def stored() -> list[str]:
    """Give the operations that touch the database: those that document that it may be away."""
    return [answer.operation for answer in documented() if answer.code == "service.unavailable"]


def parameters(operation: str) -> list[Mapping[str, Any]]:
    """Give the parameters of an operation, also those of its path."""
    path, _, content = places()[operation]
    shared = DOCUMENT["paths"][path].get("parameters", [])
    return [resolved(parameter) for parameter in (*shared, *content.get("parameters", []))]


def resolved(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references within the document to what they mean."""
    if "$ref" not in part:
        return part
    found: Any = DOCUMENT
    for name in part["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return resolved(found)


def check(method: str, target: str, answer: Answer) -> None:
    """Fail where an answer is not one that the document has for this request."""
    identity = answer.header("X-Request-Id")
    assert identity is not None
    assert re.fullmatch("[0-9a-f]{32}", identity), identity
    if answer.header("Content-Type") == PROBLEM and method != "HEAD":
        _check_problem(answer, identity)
    path = target.partition("?")[0]
    template = next((template for template in DOCUMENT["paths"] if _pattern(template).fullmatch(path)), None)
    if template is None:
        return
    carried = _carried(template)
    if answer.status == 405:
        assert method not in carried
        assert answer.header("Allow") == ", ".join(sorted(carried))
        for each in carried - {"HEAD"}:
            _check_response(each, template, answer)
    elif method != "HEAD":
        _check_response(method, template, answer)


def _check_problem(answer: Answer, identity: str) -> None:
    problem = answer.json
    known = DOCUMENT["x-problems"][problem["code"]]
    assert problem == {
        "code": problem["code"],
        "detail": problem["detail"],
        "status": answer.status,
        "title": known["title"],
        "traceId": identity,
        "type": known["type"],
    }
    assert problem["detail"]
    assert known["status"] == answer.status
    for name, value in known.get("headers", {}).items():
        given = answer.header(name)
        assert given == value if isinstance(value, str) else given is not None, name
    assert (answer.header("Retry-After") in {"1", "5"}) is (answer.status in {429, 503})


def _check_response(method: str, template: str, answer: Answer) -> None:
    request = MockRequest(DOCUMENT_URL, method, re.sub(r"\{[^}]*\}", "x", template))
    response = MockResponse(
        answer.body, answer.status, dict(answer.fields), (answer.header("Content-Type") or "").lower()
    )
    _openapi().validate_response(request, response)
    if "content" not in resolved(DOCUMENT["paths"][template][method.lower()]["responses"][str(answer.status)]):
        assert answer.body == b""
        assert answer.header("Content-Type") is None


DOCUMENT_URL: Final = "http://127.0.0.1:8080"


@cache
def _openapi() -> OpenAPI:
    # Without a deserializer for it openapi-core refuses every problem, also those that are right.
    return OpenAPI.from_dict(DOCUMENT, config=Config(extra_media_type_deserializers={PROBLEM: json.loads}))


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("[^/]+".join(re.escape(part) for part in re.split(r"\{[^}]*\}", template)))


def _carried(template: str) -> set[str]:
    methods = {method.upper() for method in DOCUMENT["paths"][template] if method in METHODS}
    return methods | ({"HEAD"} if "GET" in methods else set())


def _codes(response: Mapping[str, Any]) -> list[str]:
    problem = response.get("content", {}).get(PROBLEM)
    if problem is None:
        return [""]
    return [
        code
        for part in problem["schema"]["allOf"]
        if "properties" in part
        for code in part["properties"]["code"]["enum"]
    ]
