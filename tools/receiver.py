"""The demo's receiver: keeps what it gets, and answers a command that it knows as it did the first time.

Whatever is sent (`POST /notices`, but any path and method will do) is answered 201 with `noticeId` and `receivedAt`.
An `Idempotency-Key` stands for one command: with the same method, target and body it has the same answer again, with
another it is 409. `GET /receipts/{key}` gives that answer, or 404; `GET /notices` lists what was got.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from uuid import uuid4

MAX_BODY_BYTES: Final = 262_144
# What is older is forgotten, so that memory has an end; a command that comes again is then a new one.
MAX_NOTICES: Final = 1_000
MAX_BYTES: Final = 16_777_216
_RECEIPTS: Final = "/receipts/"
_SENDING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Sent(NamedTuple):
    """One request that sends something."""

    method: str
    target: str
    key: str | None
    body: bytes


class Answer(NamedTuple):
    """A status and the JSON that goes with it."""

    status: int
    value: Mapping[str, Any]


@dataclass(slots=True)
class _Notice:
    """What is kept of a command."""

    digest: bytes
    size: int
    entry: dict[str, Any]
    answer: Answer


class Recorder:
    """Keeps the newest commands, at most MAX_NOTICES with MAX_BYTES of bodies; `told` is called with each as it came.

    What it is called with is an entry as `GET /notices` lists it, with the `status` that was answered.
    """

    def __init__(self, told: Callable[[Mapping[str, Any]], None]) -> None:
        self._told = told
        self._notices: OrderedDict[str, _Notice] = OrderedDict()
        self._bytes = 0

    def receive(self, sent: Sent) -> Answer:
        """Keep a command, or find the one that has its key."""
        if len(sent.body) > MAX_BODY_BYTES:
            return Answer(413, {"error": f"a body has at most {MAX_BODY_BYTES:,} bytes"})
        digest = hashlib.sha256("\n".join((sent.method, sent.target, "")).encode() + sent.body).digest()
        known = None if sent.key is None else self._notices.get(sent.key)
        if known is None:
            known = self._keep(sent, digest)
        elif known.digest == digest:
            known.entry["deliveries"] += 1
        answer = known.answer
        if known.digest != digest:
            answer = Answer(409, {"error": "the Idempotency-Key stands for another command"})
        self._told(known.entry | {"status": answer.status})
        return answer

    def look(self, target: str) -> Answer:
        """Answer a GET: the list, or a receipt."""
        path = target.partition("?")[0]
        if path == "/notices":
            return Answer(200, {"notices": [notice.entry for notice in self._notices.values()]})
        found = self._notices.get(unquote(path.removeprefix(_RECEIPTS))) if path.startswith(_RECEIPTS) else None
        return Answer(404, {"error": "nothing is here"}) if found is None else found.answer._replace(status=200)

    def _keep(self, sent: Sent, digest: bytes) -> _Notice:
        answer = {"noticeId": str(uuid4()), "receivedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        about = {"method": sent.method, "target": sent.target, "idempotencyKey": sent.key}
        entry = {**answer, **about, "deliveries": 1, "body": _value(sent.body)}
        notice = _Notice(digest, len(sent.body), entry, Answer(201, answer))
        self._notices[answer["noticeId"] if sent.key is None else sent.key] = notice
        self._bytes += notice.size
        while len(self._notices) > MAX_NOTICES or self._bytes > MAX_BYTES:
            self._bytes -= self._notices.popitem(last=False)[1].size
        return notice


def _value(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")


class Receiver:
    """The recorder as an ASGI application."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        method, target = scope["method"], _target(scope)
        if method in _SENDING:
            body = await _body(receive)
            answer = self._recorder.receive(Sent(method, target, _key(scope), body))
        else:
            answer = self._recorder.look(target)
        payload = json.dumps(answer.value).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(payload)).encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else payload})


def _target(scope: Any) -> str:
    query = scope["query_string"].decode("latin-1")
    path = scope["raw_path"].decode("latin-1")
    return f"{path}?{query}" if query else path


def _key(scope: Any) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"idempotency-key"), None)


async def _body(receive: Any) -> bytes:
    """Read a body, of one that is too long no more than shows that it is."""
    body = b""
    more = True
    while more and len(body) <= MAX_BODY_BYTES:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body
