"""What Gatehouse's answers keep beyond what OpenAPI says: identities, problems by `x-problems`, methods by listener."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from typing import Any, Final, Literal, TypeAlias

from tools.contract.document import PROBLEM, Document, Reply

ListenerName: TypeAlias = Literal["control", "join", "installer"]

JOIN_PREFIX: Final = "/v1/join/"
# What is served beside the documents.
PLUMBING: Final = re.compile(r"/metrics|/docs(/.*)?|/openapi/[a-z]+\.json")

# What a problem calls the identity of its request.
IDENTITIES: Final = {"coordinator": "traceId", "join": "requestId", "installer": "requestId"}
# What the document leaves open, since it differs by listener.
REALMS: Final[dict[ListenerName, str]] = {
    "control": 'Bearer realm="gatehouse"',
    "join": 'Bearer realm="join"',
    "installer": 'Bearer realm="installer"',
}


def api_of(path: str, listener: ListenerName) -> str:
    """Return the API in whose shape a listener answers a path."""
    if listener != "control":
        return listener
    return "join" if path.startswith(JOIN_PREFIX) else "coordinator"


def carried(document: Document, listener: ListenerName, template: str) -> Set[str]:
    """Return the methods of a path that a listener carries."""
    methods = {
        method for method, place in document.at(template).items() if listener in place.content.get("x-listeners", ())
    }
    return methods | ({"HEAD"} if "GET" in methods else set())


def faults(document: Document, listener: ListenerName, method: str, template: str | None, reply: Reply) -> list[str]:
    """Tell what an answer on a listener does not keep; `template` is the path of the document that was asked for."""
    found = list(_of_identity(reply))
    if reply.header("content-type") == PROBLEM and method != "HEAD" and reply.body is not None:
        found += _of_problem(document, listener, reply)
    if template is not None:
        found += _of_method(reply, method, listener, carried(document, listener, template))
    return found


def _of_identity(reply: Reply) -> Iterator[str]:
    if not re.fullmatch("[0-9a-f]{32}", reply.header("x-request-id") or ""):
        yield "X-Request-Id is not 32 hexadecimal digits"


def _of_method(reply: Reply, method: str, listener: ListenerName, methods: Set[str]) -> Iterator[str]:
    if not methods:
        if reply.status != 404:
            yield "the listener does not carry the path, and does not say 404"
    elif reply.status == 405:
        if method in methods:
            yield "the method is carried, and refused"
        if reply.header("allow") != ", ".join(sorted(methods)):
            yield "Allow does not list the methods that the listener carries"
    # The installer listener tells nothing of a path to whoever has not passed its code.
    elif method not in methods and not (listener == "installer" and reply.status in {401, 429, 500}):
        yield "the listener does not carry the method, and does not say 405"


def _of_problem(document: Document, listener: ListenerName, reply: Reply) -> Iterator[str]:
    try:
        problem = json.loads(reply.body or b"")
    except ValueError:
        problem = None
    known = document.content.get("x-problems", {}).get(problem.get("code")) if isinstance(problem, dict) else None
    if known is None:
        yield "the problem has no code of x-problems"
        return
    yield from _of_members(problem, known, reply, IDENTITIES[document.name])
    for name, value in known.get("headers", {}).items():
        given = reply.header(name.lower())
        expected = REALMS[listener] if name == "WWW-Authenticate" and value is None else value
        # A number is what is usual; overload and locks give others.
        if given is None or (isinstance(expected, str) and given != expected):
            yield f"{name} is not what x-problems says"
    if document.name == "installer":
        if (reply.header("retry-after") is not None) is not (reply.status == 429):
            yield "Retry-After is not on 429 alone"
    elif (reply.header("retry-after") in {"1", "5"}) is not (reply.status in {429, 503}):
        yield "Retry-After is not on 429 and 503 alone, or neither 1 nor 5"


def _of_members(problem: dict[str, Any], known: dict[str, Any], reply: Reply, identity: str) -> Iterator[str]:
    beside = set(known.get("members", ()))
    expected = {
        "status": known["status"],
        "title": known["title"],
        "type": known["type"],
        identity: reply.header("x-request-id"),
    }
    if problem.keys() != {"code", "detail", *expected, *beside}:
        yield "the problem has other members than its code"
    for name, value in expected.items():
        if problem.get(name) != value:
            yield f"the problem's {name} is not its code's" if name != identity else f"{identity} is not X-Request-Id"
    if reply.status != known["status"]:
        yield "the status is not that of the problem's code"
    if not problem.get("detail"):
        yield "the problem has no detail"
    if problem.get("errors") == []:
        yield "the problem's errors are none"
