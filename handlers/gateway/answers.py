"""From a typed answer, or a problem, to bytes; everything is rendered before the first byte leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
import orjson
from starlette.types import Send

from generated.runtime import Answer, Operation, Problem
from handlers.gateway.faults import Entry

Headers: TypeAlias = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Rendered:
    """An answer as it goes on the wire; `code` is the problem's code, or "" for a success."""

    status: int
    headers: Headers
    body: bytes
    code: str = ""

    async def send(self, send: Send) -> None:
        """Send the whole answer."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


Renderer: TypeAlias = Callable[[Any], Rendered]


def problem_answer(problem: Problem, trace_id: str) -> Rendered:
    """Render a problem that a handler or an authenticator raised."""
    return _render(problem, problem.trace_member, problem.detail, trace_id, problem.headers, problem.members)


def entry_answer(
    entry: Entry,
    detail: str,
    trace_id: str,
    *,
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, object] | None = None,
) -> Rendered:
    """Render a refusal of the gateway's own; `headers` are those that the catalogue leaves open or has a default for."""
    fixed = {name: str(value) for name, value in entry.headers.items() if value is not None}
    return _render(entry, entry.trace_member, detail, trace_id, fixed | dict(headers or {}), members or {})


def _render(
    kind: Problem | Entry,
    trace_member: str,
    detail: str,
    trace_id: str,
    headers: Mapping[str, str],
    members: Mapping[str, object],
) -> Rendered:
    content = {
        **members,
        "code": kind.code,
        "detail": detail,
        "status": kind.status,
        "title": kind.title,
        trace_member: trace_id,
        "type": kind.type,
    }
    body = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return Rendered(
        kind.status, _content_headers(b"application/problem+json", body) + _encode(headers), body, kind.code
    )


def renderers(operation: Operation) -> dict[type, Renderer]:
    """Return how each documented success is rendered; a value of any other class is not an answer of the operation."""
    return {answer.response: _renderer(answer) for answer in operation.answers if answer.content != "events"}


def _renderer(answer: Answer) -> Renderer:
    fields = [(name.lower().encode(), attrgetter(field)) for name, field in answer.headers]
    media_type = answer.media_type.encode() if answer.media_type else None

    def render(response: Any) -> Rendered:
        headers: Headers = [
            (name, str(value).encode("latin-1"))
            for name, get in fields
            if (value := get(response)) is not msgspec.UNSET
        ]
        if media_type is None:
            return Rendered(answer.status, headers, b"")
        content = response.body
        body = content if isinstance(content, bytes) else msgspec.json.encode(content)
        return Rendered(answer.status, headers + _content_headers(media_type, body), body)

    return render


def _content_headers(media_type: bytes, body: bytes) -> Headers:
    return [(b"content-type", media_type), (b"content-length", b"%d" % len(body))]


def _encode(headers: Mapping[str, str]) -> Headers:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
