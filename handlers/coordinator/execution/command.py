"""Makes the request of a call once, whole: it is kept as it is, and sent again byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.workflows.path_template import PARAMETER
from handlers.coordinator.workflows.values import UnfitValueError, canonical_text
from handlers.coordinator.workflows.workflow import Call
from storage.execution.records import Command

MAX_URL_BYTES: Final = 8_192
# What every request has; an encoded answer could stand for any number of bytes.
HEADERS: Final = (("Accept", "application/json"), ("Accept-Encoding", "identity"), ("User-Agent", "gatehouse"))

# What would be resolved away, or lead elsewhere, as a whole segment; since no parameter is one, no segment becomes one.
_NO_SEGMENT: Final = frozenset({"", ".", ".."})


class RequestInvalidError(Exception):
    """What a mapping gave makes no request that can be sent; the message repeats nothing of it."""


def make_command(key: str, call: Call, connection: Connection, activation: Mapping[str, Any]) -> Command:
    """Return the command of a call; `key` is visible ASCII, `activation` what stands over the step's mappings.

    Raises MappingError where a mapping gives nothing, and RequestInvalidError where it gives what has no place in a
    path, a query or a body, or a URL of more than 8,192 bytes.
    """
    parameters = call.parameters.evaluate(activation)
    query = call.query.evaluate(activation)
    url = connection.base_url + _filled(call.path, parameters) + _query(query)
    if len(url) > MAX_URL_BYTES:
        raise RequestInvalidError("the URL is longer than 8,192 bytes")
    body = None if call.body is None else _body(call.body.evaluate(activation))
    return Command(
        key=key,
        connection=connection.name,
        recovery="read-again" if call.method == "GET" else connection.recovery,
        method=call.method,
        url=url,
        headers=_headers(key, call.method, body),
        body=body,
    )


def _headers(key: str, method: str, body: bytes | None) -> tuple[tuple[str, str], ...]:
    own = () if method == "GET" else (("Idempotency-Key", key),)
    return (*HEADERS, *own, *(() if body is None else (("Content-Type", "application/json"),)))


def _filled(template: str, parameters: Mapping[str, Any]) -> str:
    return PARAMETER.sub(lambda parameter: _segment(parameters[parameter[1]]), template)


def _segment(value: Any) -> str:
    text = _text(value)
    if text in _NO_SEGMENT:
        raise RequestInvalidError("a parameter of the path is empty, '.' or '..'")
    return _quoted(text)


def _query(values: Mapping[str, Any]) -> str:
    pairs = [f"{_quoted(name)}={_quoted(_text(value))}" for name, value in values.items() if value is not None]
    return "?" + "&".join(pairs) if pairs else ""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return canonical_text(value)
    raise RequestInvalidError("a parameter or a value of the query is no text, number or boolean")


def _quoted(text: str) -> str:
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise RequestInvalidError("a text has no form in UTF-8") from None


def _body(value: Any) -> bytes:
    try:
        return canonical_text(value).encode()
    except UnfitValueError as error:
        raise RequestInvalidError(f"the body {error}") from None
