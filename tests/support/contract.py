"""Holds each answer of a server to the document of its path, by openapi-core and by what design.md adds to it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Set
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import jsonschema_rs
import yaml
from openapi_core import Config, OpenAPI
from openapi_core.testing import MockRequest, MockResponse

from tests.support.wire import Answer

ApiName: TypeAlias = Literal["coordinator", "join", "installer"]
ListenerName: TypeAlias = Literal["control", "join", "installer"]

APIS: Final[tuple[ApiName, ...]] = get_args(ApiName)
PROBLEM: Final = "application/problem+json"
YAML: Final = "application/yaml"
EVENT_STREAM: Final = "text/event-stream"
METHODS: Final = {"get", "post", "put", "patch", "delete"}
JOIN_PREFIX: Final = "/v1/join/"

# What a problem calls the identity of its request.
IDENTITIES: Final[dict[ApiName, str]] = {"coordinator": "traceId", "join": "requestId", "installer": "requestId"}
_SOME_IDENTITY: Final = "0" * 32
# What the document leaves open, since it differs by listener.
REALMS: Final[dict[ListenerName, str]] = {
    "control": 'Bearer realm="gatehouse"',
    "join": 'Bearer realm="join"',
    "installer": 'Bearer realm="installer"',
}


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


@cache
def document(api: ApiName = "coordinator") -> dict[str, Any]:
    """Return an API's document, as it is served."""
    found: dict[str, Any] = json.loads(files(f"generated.{api}").joinpath("contract.json").read_bytes())
    return found


@cache
def places(api: ApiName = "coordinator") -> Mapping[str, Place]:
    """Every operation, by its operationId."""
    return {
        operation["operationId"]: Place(path, method.upper(), operation)
        for path, item in document(api)["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }


def documented(api: ApiName = "coordinator") -> Iterator[Documented]:
    """Give every answer that the document knows, in its order."""
    for name, place in places(api).items():
        for status, response in place.content["responses"].items():
            for code in _codes(resolved(response, api)):
                yield Documented(name, int(status), code)


def guarded(api: ApiName = "coordinator") -> list[str]:
    """Give the operations that take the operator's token."""
    return [
        name
        for name, place in places(api).items()
        if any("operatorToken" in each for each in place.content.get("security", document(api).get("security", [])))
    ]


def stored(api: ApiName = "coordinator") -> list[str]:
    """Give the operations that touch the database: those that document that it may be away."""
    return [answer.operation for answer in documented(api) if answer.code in {"service.unavailable", "UNAVAILABLE"}]


def parameters(operation: str, api: ApiName = "coordinator") -> list[Mapping[str, Any]]:
    """Give the parameters of an operation, also those of its path."""
    path, _, content = places(api)[operation]
    shared = document(api)["paths"][path].get("parameters", [])
    return [resolved(parameter, api) for parameter in (*shared, *content.get("parameters", []))]


def resolved(part: Mapping[str, Any], api: ApiName = "coordinator") -> Mapping[str, Any]:
    """Follow references within the document to what they mean."""
    if "$ref" not in part:
        return part
    found: Any = document(api)
    for name in part["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return resolved(found, api)


def api_of(path: str, listener: ListenerName) -> ApiName:
    """Return the API in whose shape a listener answers a path."""
    if listener != "control":
        return listener
    return "join" if path.startswith(JOIN_PREFIX) else "coordinator"


def check_event(operation: str, data: str, api: ApiName = "installer") -> None:
    """Fail where the data of a server-sent event is none that the operation's document has."""
    _items(api, operation).validate(json.loads(data))


def check(method: str, target: str, answer: Answer, listener: ListenerName = "control") -> None:
    """Fail where an answer is not one that the document has for this request on this listener."""
    identity = answer.header("X-Request-Id")
    assert identity is not None
    assert re.fullmatch("[0-9a-f]{32}", identity), identity
    path = target.partition("?")[0]
    api = api_of(path, listener)
    if answer.header("Content-Type") == PROBLEM and method != "HEAD":
        _check_problem(api, listener, answer, identity)
    template = next((template for template in document(api)["paths"] if _pattern(template).fullmatch(path)), None)
    if template is None:
        return
    carried = _carried(api, listener, template)
    if not carried:
        assert answer.status == 404
    elif answer.status == 405:
        assert method not in carried
        assert answer.header("Allow") == ", ".join(sorted(carried))
        for each in carried - {"HEAD"}:
            if "405" in document(api)["paths"][template][each.lower()]["responses"]:
                _check_response(api, each, template, answer)
    elif method not in carried:
        # The installer listener tells nothing of a path to whoever has not passed its code.
        assert listener == "installer"
        assert answer.status in {401, 429, 500}
    elif method != "HEAD":
        _check_response(api, method, template, answer)


def _check_problem(api: ApiName, listener: ListenerName, answer: Answer, identity: str) -> None:
    problem = answer.json
    known = document(api)["x-problems"][problem["code"]]
    beside = set(known.get("members", ()))
    assert beside <= problem.keys()
    assert {name: value for name, value in problem.items() if name not in beside} == {
        "code": problem["code"],
        "detail": problem["detail"],
        "status": answer.status,
        "title": known["title"],
        IDENTITIES[api]: identity,
        "type": known["type"],
    }
    assert problem["detail"]
    assert problem.get("errors") != []
    assert known["status"] == answer.status
    for name, value in known.get("headers", {}).items():
        given = answer.header(name)
        expected = REALMS[listener] if name == "WWW-Authenticate" and value is None else value
        assert given == expected if isinstance(expected, str) else given is not None, name
    if api == "installer":
        assert (answer.header("Retry-After") is not None) is (answer.status == 429)
    else:
        assert (answer.header("Retry-After") in {"1", "5"}) is (answer.status in {429, 503})


def _check_response(api: ApiName, method: str, template: str, answer: Answer) -> None:
    # One that differs from another in its date and its identity alone need not be looked at again, which is slow.
    fields = [field for field in answer.fields if field[0] not in {"date", "x-request-id"}]
    identity = answer.header("X-Request-Id")
    assert identity
    _validate(
        api,
        method,
        template,
        answer.status,
        (("x-request-id", _SOME_IDENTITY), *fields),
        answer.body.replace(identity.encode(), _SOME_IDENTITY.encode()),
    )
    responses = document(api)["paths"][template][method.lower()]["responses"]
    if "content" not in resolved(responses[str(answer.status)], api):
        assert answer.body == b""
        assert answer.header("Content-Type") is None


@lru_cache(maxsize=1024)
def _validate(
    api: ApiName, method: str, template: str, status: int, fields: tuple[tuple[str, str], ...], body: bytes
) -> None:
    operation = document(api)["paths"][template][method.lower()]
    server = operation.get("servers", document(api).get("servers"))[0]["url"]
    request = MockRequest(server, method, re.sub(r"\{[^}]*\}", "x", template))
    headers = dict(fields)
    response = MockResponse(body, status, headers, headers.get("content-type", "").lower())
    _openapi(api).validate_response(request, response)


@cache
def _openapi(api: ApiName) -> OpenAPI:
    # Without a deserializer for it openapi-core refuses every problem, also those that are right.
    deserializers: dict[str, Callable[[bytes], Any]] = {
        PROBLEM: json.loads,
        YAML: yaml.safe_load,
        EVENT_STREAM: bytes.decode,
    }
    return OpenAPI.from_dict(document(api), config=Config(extra_media_type_deserializers=deserializers))


@cache
def _items(api: ApiName, operation: str) -> jsonschema_rs.Draft202012Validator:
    content = resolved(places(api)[operation].content["responses"]["200"], api)["content"]
    schema = {"components": document(api)["components"], **content[EVENT_STREAM]["x-item-schema"]}
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("[^/]+".join(re.escape(part) for part in re.split(r"\{[^}]*\}", template)))


@cache
def _carried(api: ApiName, listener: ListenerName, template: str) -> Set[str]:
    """Which methods of a path a listener carries."""
    methods = {
        place.method
        for place in places(api).values()
        if place.path == template and listener in place.content["x-listeners"]
    }
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
