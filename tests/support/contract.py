"""The documents, as tests look at them, and the check to which each answer of a server is put."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import jsonschema_rs

from tests.support.wire import Answer
from tools.contract.document import Document, Place, Reply, Request, own
from tools.contract.house import IDENTITIES, REALMS, ListenerName, api_of
from tools.contract.recorder import Recorder

__all__ = ["APIS", "IDENTITIES", "REALMS", "ApiName", "ListenerName", "api_of"]

ApiName: TypeAlias = Literal["coordinator", "join", "installer"]

APIS: Final[tuple[ApiName, ...]] = get_args(ApiName)
PROBLEM: Final = "application/problem+json"


class Documented(NamedTuple):
    """One answer of an operation; `code` is "" for a success."""

    operation: str
    status: int
    code: str


@cache
def own_document(api: ApiName) -> Document:
    """Return an API's document, as answers are held to it."""
    return own(api)


def document(api: ApiName = "coordinator") -> Mapping[str, Any]:
    """Return an API's document, as it is served."""
    return own_document(api).content


@cache
def places(api: ApiName = "coordinator") -> Mapping[str, Place]:
    """Every operation, by its operationId."""
    return {place.name: place for place in own_document(api).places}


@cache
def documented(api: ApiName = "coordinator") -> tuple[Documented, ...]:
    """Return every answer that the document knows, in its order."""
    answers = (cell for cell in own_document(api).cells() if not cell.header)
    return tuple(dict.fromkeys(Documented(cell.operation, int(cell.status), cell.code) for cell in answers))


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
    place = places(api)[operation]
    shared = document(api)["paths"][place.path].get("parameters", [])
    return [resolved(parameter, api) for parameter in (*shared, *place.content.get("parameters", []))]


def resolved(part: Mapping[str, Any], api: ApiName = "coordinator") -> Mapping[str, Any]:
    """Follow references within the document to what they mean."""
    return own_document(api).resolved(part)


def check_event(operation: str, data: str, api: ApiName = "installer") -> None:
    """Fail where the data of a server-sent event is none that the operation's document has."""
    fault = own_document(api).fault_of_event(places(api)[operation], data)
    assert fault is None, fault


def check(method: str, target: str, answer: Answer, listener: ListenerName = "control") -> None:
    """Fail where an answer is not one that the document has for this request on this listener."""
    reply = Reply(answer.status, answer.fields, answer.body)
    repeated = {name for name, _ in answer.fields if sum(name == other for other, _ in answer.fields) > 1}
    assert not repeated, repeated
    assert _recorder(listener).note(Request(method, target, (), None), reply) == []


@cache
def _recorder(listener: ListenerName) -> Recorder:
    return Recorder([own_document(api) for api in APIS], listener)


def faults(api: ApiName, method: str, target: str, answer: Answer) -> list[str]:
    """Tell what of an answer the document does not have for this method and path, by its schemas alone."""
    template = own_document(api).template(target)
    assert template is not None
    place = own_document(api).at(template)[method]
    return own_document(api).faults_of_reply(place, Reply(answer.status, answer.fields, answer.body))


@cache
def schema(api: ApiName, name: str) -> jsonschema_rs.Draft202012Validator:
    """Return what judges values by a schema of the document's components."""
    whole = {"components": document(api)["components"], "$ref": f"#/components/schemas/{name}"}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
