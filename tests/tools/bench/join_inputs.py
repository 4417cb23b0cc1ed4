"""What Gatehouse and both peers have to answer alike to a node that reports."""

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from tools.bench.join import Node
from tools.bench.servers import HOST, Server

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Report:
    """A report that may be bent; its body is the JSON of `value`, where it has no `raw` one."""

    value: Any = None
    raw: bytes | None = None
    fields: Mapping[str, str] = field(default_factory=lambda: JSON)
    join_id: str | None = None
    method: str = "POST"

    def send(
        self, server: Server, node: Node, *, identity: Path | None, more: Sequence[tuple[str, str]] = ()
    ) -> tuple[int, str]:
        """The status and the problem's code, "" for none; `identity` is the client's certificate and key."""
        body = json.dumps(self.value).encode() if self.raw is None else self.raw
        connection = _connection(server, identity)
        try:
            connection.putrequest(
                self.method, f"/v1/join/registrations/{self.join_id or node.join_id}/events", skip_accept_encoding=True
            )
            for name, value in (*self.fields.items(), *more, ("Content-Length", str(len(body)))):
                connection.putheader(name, value)
            # A body that is too long is cut off where it has been answered.
            with suppress(ConnectionError):
                connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}").get("code", "")
        finally:
            connection.close()


def _connection(server: Server, identity: Path | None) -> http.client.HTTPConnection:
    if not server.program.tls:
        return http.client.HTTPConnection(HOST, server.program.port, timeout=30)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(identity)
    return http.client.HTTPSConnection(HOST, server.program.port, timeout=30, context=context)


def log(**members: Any) -> Report:
    """A report of one log event with these members beside its message."""
    return Report({"events": [{"type": "log", "message": "a line"} | members]})


def event(**members: Any) -> Report:
    """A report of one event that has these members alone."""
    return Report({"events": [members]})


def at(text: Any) -> Report:
    """A report of one line at this time."""
    return log(at=text)


def nested(levels: int) -> list[Any]:
    """So many lists in one another."""
    return [nested(levels - 1)] if levels > 1 else []


LINE = {"type": "log", "message": "a line"}
RECORDED = (204, "")
INVALID = (400, "INVALID_INPUT")
UNKNOWN = (404, "NOT_FOUND")


def keyed(key: str, *events: Any) -> Report:
    """A report under an idempotency key."""
    return Report({"events": list(events)}, fields=JSON | {"Idempotency-Key": key})


INPUTS: Mapping[str, tuple[Report, tuple[int, str]]] = {
    "a line": (log(), RECORDED),
    "a line of a step": (log(step="raft:control"), RECORDED),
    "a line with a status": (log(status="done"), RECORDED),
    "a line with members that nobody knows": (log(level="info", at2={"x": [1]}), RECORDED),
    "a line with U+0000": (log(message="\0"), RECORDED),
    "nothing": (Report({"events": []}), RECORDED),
    "500 lines": (Report({"events": [LINE] * 500}), RECORDED),
    "501 lines": (Report({"events": [LINE] * 501}), INVALID),
    "a member beside the events": (Report({"events": [], "node": "n"}), RECORDED),
    "a time in UTC": (at("2026-04-15T12:00:00Z"), RECORDED),
    "a time in lower case": (at("2026-04-15t12:00:00z"), RECORDED),
    "a time with an offset and nine digits": (at("2026-04-15T12:00:00.123456789-23:59"), RECORDED),
    "a leap second": (at("2016-12-31T23:59:60Z"), RECORDED),
    "a time without an offset": (at("2026-04-15T12:00:00"), INVALID),
    "a day that does not exist": (at("2026-02-30T12:00:00Z"), INVALID),
    "a time before the year 1": (at("0001-01-01T00:00:00+00:01"), INVALID),
    "a time as a number": (at(1776254400), INVALID),
    "a time that is null": (at(None), INVALID),
    "no events": (Report({}), INVALID),
    "events that are null": (Report({"events": None}), INVALID),
    "events that are an object": (Report({"events": {}}), INVALID),
    "an event that is no object": (Report({"events": ["log"]}), INVALID),
    "an event without a type": (event(message="m"), INVALID),
    "an event of another type": (event(type="note", message="m"), INVALID),
    "a line without a message": (event(type="log"), INVALID),
    "a message that is null": (log(message=None), INVALID),
    "a message that is a number": (log(message=5), INVALID),
    "a line of a step that the plan does not have": (log(step="raft:other"), INVALID),
    "a line of a step that is null": (log(step=None), INVALID),
    "a line with a status that there is not": (log(status="waiting"), INVALID),
    "a step without a status": (event(type="step", step="services"), INVALID),
    "a step without a name": (event(type="step", status="done"), INVALID),
    "a step that the plan does not have": (event(type="step", step="other", status="done"), INVALID),
    "a step with a status that there is not": (event(type="step", step="services", status="waiting"), INVALID),
    "a good line before a bad one": (Report({"events": [LINE, LINE | {"at": "now"}]}), INVALID),
    "a list": (Report([]), INVALID),
    "no JSON": (Report(raw=b'{"events": ['), INVALID),
    "bytes that are no UTF-8": (Report(raw=b'{"events": [{"type": "log", "message": "\xff"}]}'), INVALID),
    "a repeated member": (Report(raw=b'{"events": [], "events": []}'), INVALID),
    "a lone surrogate": (Report(raw=b'{"events": [{"type": "log", "message": "\\ud800"}]}'), INVALID),
    "64 levels": (log(deep=nested(61)), RECORDED),
    "65 levels": (log(deep=nested(62)), INVALID),
    "an empty body": (Report(raw=b""), INVALID),
    "a media type with a parameter": (
        Report({"events": []}, fields={"Content-Type": "Application/JSON; charset=utf-8"}),
        RECORDED,
    ),
    "another media type": (
        Report({"events": []}, fields={"Content-Type": "text/plain"}),
        (415, "UNSUPPORTED_MEDIA_TYPE"),
    ),
    "a body that is encoded": (
        Report({"events": []}, fields=JSON | {"Content-Encoding": "gzip"}),
        (415, "UNSUPPORTED_MEDIA_TYPE"),
    ),
    "a body that is encoded as it is": (
        Report({"events": []}, fields=JSON | {"Content-Encoding": "Identity"}),
        RECORDED,
    ),
    "no media type": (Report({"events": []}, fields={}), (415, "UNSUPPORTED_MEDIA_TYPE")),
    "a body over 4 MiB": (Report(raw=b" " * (4 * 1_048_576 + 1)), (413, "BODY_TOO_LARGE")),
    "a key with a space": (keyed("a key"), INVALID),
    "a key of 64 characters": (keyed("!" * 64), RECORDED),
    "a key of 65 characters": (keyed("~" * 65), INVALID),
    "an empty key": (keyed(""), INVALID),
    "an unknown join": (Report({"events": []}, join_id=str(uuid4())), UNKNOWN),
    "a join that is no UUID": (Report({"events": []}, join_id="one"), UNKNOWN),
    "a bad body for an unknown join": (Report(raw=b"", join_id=str(uuid4())), UNKNOWN),
}


def step(name: str, *statuses: str) -> Report:
    """A report of the ways that a step goes."""
    return Report({"events": [{"type": "step", "step": name, "status": status} for status in statuses]})


# Reports under keys, each sent after the others; the first key is forgotten when sixteen others have come.
KEYS: Sequence[tuple[Report, tuple[int, str]]] = (
    (keyed("first", LINE), RECORDED),
    (keyed("first", LINE), RECORDED),
    (keyed("first"), (409, "IDEMPOTENCY_KEY_REUSED")),
    (keyed("first", LINE | {"message": None}), INVALID),
    *((keyed(f"key-{number}"), RECORDED) for number in range(15)),
    (keyed("first"), (409, "IDEMPOTENCY_KEY_REUSED")),
    (keyed("key-15"), RECORDED),
    (keyed("first"), RECORDED),
    (keyed("key-15", LINE), (409, "IDEMPOTENCY_KEY_REUSED")),
)

# The life of a join from its first step to its end: each report is sent after the others.
LIFE: Sequence[tuple[Report, tuple[int, str]]] = (
    (step("services", "running"), RECORDED),
    (step("services", "running"), RECORDED),
    (step("raft:control", "running", "done"), RECORDED),
    (step("raft:control", "running"), (409, "JOIN_STEP_ORDER")),
    (step("services", "done", "running"), (409, "JOIN_STEP_ORDER")),
    (step("services", "done"), RECORDED),
    (step("services", "done"), RECORDED),
    (step("services", "failed"), (409, "JOIN_STEP_ORDER")),
    (
        Report(
            {"events": [LINE, {"type": "step", "step": "complete", "status": "failed", "message": "no disk"}, LINE]}
        ),
        RECORDED,
    ),
    (Report({"events": []}), (409, "JOIN_ENDED")),
    (Report({"events": [LINE]}), (409, "JOIN_ENDED")),
    (keyed("key-15"), RECORDED),
    (keyed("key-15", LINE), (409, "IDEMPOTENCY_KEY_REUSED")),
    (log(message=None), INVALID),
)
