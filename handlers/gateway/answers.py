"""From a typed answer, or a problem, to bytes; everything is rendered before the first byte leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec
from starlette.types import Send

from generated.runtime import Answer, Operation, Problem
from handlers.gateway.event_stream import EventStream
from handlers.gateway.faults import Entry, Finding

Headers: TypeAlias = list[tuple[bytes, bytes]]
HeaderFields: TypeAlias = Sequence[tuple[bytes, Callable[[Any], object]]]

# A field value as RFC 9110, section 5.5 has it.
_FIELD_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
# A longer body is sent in pieces: between two of them it is seen whether the client takes them.
PIECE_BYTES: Final = 65_536

_encoder: Final = msgspec.json.Encoder(order="sorted")


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
        last = max(len(self.body) - 1, 0) // PIECE_BYTES * PIECE_BYTES
        for start in range(0, last, PIECE_BYTES):
            piece = self.body[start : start + PIECE_BYTES]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": self.body[last:]})


Renderer: TypeAlias = Callable[[Any], Rendered | EventStream]


def problem_answer(problem: Problem, trace_id: str, *, headers: Mapping[str, str] | None = None) -> Rendered:
    """Render a problem that a handler or an authenticator raised; `headers` are those that it need not know itself."""
    given = dict(headers or {}) | problem.headers
    return _render(problem, problem.trace_member, problem.detail, trace_id, given, problem.members)


def entry_answer(
    entry: Entry,
    detail: str,
    trace_id: str,
    *,
    headers: Mapping[str, str] | None = None,
    findings: Sequence[Finding] = (),
) -> Rendered:
    """Render a refusal of the gateway's own.

    `headers` are those that the catalogue leaves open or has a default for; a code that lists findings and is given
    none lists the detail.
    """
    fixed = {name: str(value) for name, value in entry.headers.items() if value is not None}
    members = {}
    if entry.findings:
        members["errors"] = [finding._asdict() for finding in findings or [Finding("", detail)]]
    return _render(entry, entry.trace_member, detail, trace_id, fixed | dict(headers or {}), members)


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
    body = _encoder.encode(content)
    given = [(name.lower().encode(), _field_value(value)) for name, value in headers.items()]
    return Rendered(kind.status, _content_headers(b"application/problem+json", body) + given, body, kind.code)


def renderers(operation: Operation) -> dict[type, Renderer]:
    """Return how each documented success is rendered; a value of any other class is not an answer of the operation."""
    return {answer.response: _renderer(answer) for answer in operation.answers}


def _renderer(answer: Answer) -> Renderer:
    return _stream_renderer(answer) if answer.content == "events" else _whole_renderer(answer)


def _stream_renderer(answer: Answer) -> Renderer:
    fields = _header_fields(answer)
    media_type = [(b"content-type", answer.media_type.encode())] if answer.media_type else []

    def render(response: Any) -> EventStream:
        return EventStream(answer.status, media_type + _headers(fields, response), response.events.chunks)

    return render


def _whole_renderer(answer: Answer) -> Renderer:
    fields = _header_fields(answer)
    media_type = answer.media_type.encode() if answer.media_type else b""
    encode = msgspec.json.encode if is_json(answer.media_type or "") else str.encode
    empty: Headers = [] if answer.status == 204 else [(b"content-length", b"0")]

    def render(response: Any) -> Rendered:
        headers = _headers(fields, response)
        if not media_type:
            return Rendered(answer.status, headers + empty, b"")
        body = encode(response.body)
        return Rendered(answer.status, headers + _content_headers(media_type, body), body)

    return render


def _header_fields(answer: Answer) -> HeaderFields:
    return [(name.lower().encode(), attrgetter(field)) for name, field in answer.headers]


def _headers(fields: HeaderFields, response: Any) -> Headers:
    return [(name, _field_value(value)) for name, get in fields if (value := get(response)) is not msgspec.UNSET]


def _content_headers(media_type: bytes, body: bytes) -> Headers:
    return [(b"content-type", media_type), (b"content-length", b"%d" % len(body))]


def is_json(media_type: str) -> bool:
    """Tell whether content of `media_type` is JSON (RFC 6839, section 3.1); any other is text to handlers."""
    return media_type.endswith(("/json", "+json"))


def _field_value(value: object) -> bytes:
    """Return a header field's value as bytes; raises ValueError for text that no field can hold."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    encoded = text.encode("latin-1")
    if _FIELD_VALUE.fullmatch(encoded) is None:
        raise ValueError("a header value has a control character")
    return encoded
