from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import pytest

from tests.contract.promised import RESERVED, TITLES, type_of
from tests.support import contract
from tests.support.contract import ApiName
from tests.support.deliveries import PATH
from tests.support.wire import Answer

# What a client may rely on in answers: the document refuses what is one beyond it, which no server would send.

IDENTITY: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
MOST: Final = 9_007_199_254_740_991
LAST: Final = (1 << 63) - 1
AT: Final = "2026-04-15T09:30:01.482Z"


class Schema(NamedTuple):
    """A schema, a value of it, members to change that leave it one, and members that do not; ... takes one away."""

    api: ApiName
    name: str
    value: dict[str, Any]
    good: list[dict[str, Any]]
    bad: list[dict[str, Any]]


COORDINATOR: Final = {
    "code": "event.invalid",
    "detail": "Nothing.",
    "status": 400,
    "title": "The event is not valid",
    "traceId": IDENTITY,
    "type": "https://id.registrystack.org/problems/registry-coordinator/event/invalid",
}
OTHERS: Final[dict[str, Any]] = {
    "type": "urn:gatehouse:problem:join:not-found",
    "title": "There is nothing here",
    "status": 404,
    "requestId": IDENTITY,
    "code": "NOT_FOUND",
}
FAULTS: Final = {"detail": "Nothing.", "errors": [{"field": "", "message": "is wrong"}]}
CODES: Final = (*TITLES["coordinator"], *RESERVED)
STEP: Final = {"id": 1, "attempt": 1, "type": "step", "step": "disks", "status": "started", "at": AT}
LOG: Final = {"id": 1, "attempt": 1, "type": "log", "step": "disks", "line": "", "at": AT}
VERDICT: Final = {"id": 1, "attempt": 1, "type": "verdict", "outcome": "succeeded", "at": AT}
STATES: Final = (
    *("pending", "approved", "joining", "joined"),
    *("failed", "rejected", "expired"),
)

SCHEMAS: Final = [
    Schema(
        "coordinator",
        "Problem",
        COORDINATOR,
        [
            *({"status": 400}, {"status": 599}, {"traceId": "0" * 32}),
            *({"code": code, "type": type_of("coordinator", code)} for code in CODES),
        ],
        [
            *({name: ...} for name in COORDINATOR),
            *({name: None} for name in COORDINATOR),
            *({"status": status} for status in (399, 600, "400")),
            *({"traceId": text} for text in ("0" * 31, "0" * 33, "A" * 32, f"x{IDENTITY}", f"{IDENTITY}x", "")),
            *({"code": f"{code}-x"} for code in CODES),
            *({"type": f"{type_of('coordinator', code)}-x"} for code in CODES),
            {"more": 1},
        ],
    ),
    *(
        Schema(
            api,
            "Problem",
            OTHERS,
            [{"status": 400}, {"status": 599}, FAULTS, {"errors": []}, {"more": 1}],
            [
                *({name: ...} for name in OTHERS),
                *({name: None} for name in (*OTHERS, "detail", "errors")),
                *({"status": status} for status in (399, 600, "400")),
                {"type": "no uri"},
                {"errors": [{"field": ""}]},
                {"errors": [{"message": ""}]},
                {"errors": [{"field": None, "message": ""}]},
                {"errors": [{"field": "", "message": None}]},
                {"errors": [None]},
            ],
        )
        for api in ("join", "installer")
    ),
    *(
        Schema(
            api,
            "FieldError",
            {"field": "", "message": ""},
            [{"more": 1}],
            [{"field": ...}, {"message": ...}, {"field": None}, {"message": None}],
        )
        for api in ("join", "installer")
    ),
    Schema(
        "join",
        "Problem",
        OTHERS,
        [{"instance": "/x"}, {"issues": []}, {"details": {"state": "failed", "position": None}}],
        [*({name: None} for name in ("instance", "issues", "details")), {"instance": "no uri"}, {"issues": [None]}],
    ),
    Schema(
        "join",
        "DocumentFinding",
        {"code": "x", "statement": -1, "detail": ""},
        [{"action": ""}, {"more": 1}],
        [
            *({name: ...} for name in ("code", "statement", "detail")),
            *({name: None} for name in ("code", "statement", "detail", "action")),
            {"statement": -2},
        ],
    ),
    Schema(
        "join",
        "JoinStanding",
        {"state": "failed", "position": None},
        [{"more": 1}, {"position": 0}, {"position": MOST}, *({"state": state} for state in STATES)],
        [
            *({"state": ...}, {"position": ...}, {"state": None}, {"state": "unknown"}, {"state": "expired-x"}),
            *({"position": -1}, {"position": MOST + 1}, {"position": "1"}),
        ],
    ),
    Schema(
        "installer",
        "InstallEvent",
        STEP,
        [{"id": LAST}, {"attempt": MOST}, {"detail": ""}, {"more": 1}, {"status": "succeeded"}, {"status": "failed"}],
        [
            *({name: ...} for name in STEP),
            *({name: None} for name in (*STEP, "detail")),
            *({"id": 0}, {"id": LAST + 1}, {"attempt": 0}, {"attempt": MOST + 1}, {"at": "yesterday"}),
            *({"status": "failed-x"}, {"status": "waiting"}),
            # Without what belongs to a type alone, so that nothing but the type can be wrong.
            *({"type": kind, "step": ..., "status": ...} for kind in ("verdict-x", "log-x", "step-x", "")),
            *({"line": "x"}, {"outcome": "failed"}, {"type": ..., "step": ..., "status": ...}),
        ],
    ),
    Schema(
        "installer",
        "InstallEvent",
        LOG,
        [{"line": "x"}, {"more": 1}],
        [
            *({name: ...} for name in LOG),
            *({name: None} for name in LOG),
            *({"detail": "x"}, {"status": "failed"}, {"outcome": "failed"}),
        ],
    ),
    Schema(
        "installer",
        "InstallEvent",
        VERDICT,
        [{"outcome": "failed"}, {"detail": "x"}, {"more": 1}],
        [
            *({name: ...} for name in VERDICT),
            *({name: None} for name in VERDICT),
            *({"step": "disks"}, {"status": "failed"}, {"line": "x"}, {"outcome": "failed-x"}, {"outcome": "started"}),
        ],
    ),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=[f"{each.api}-{each.name}" for each in SCHEMAS])
def test_a_schema_of_answers_knows_its_bounds(schema: Schema) -> None:
    judge = contract.schema(schema.api, schema.name)
    for change in ({}, *schema.good):
        assert judge.is_valid(_changed(schema.value, change)), change
    for change in schema.bad:
        assert not judge.is_valid(_changed(schema.value, change)), change
    assert not judge.is_valid(None)


def test_an_event_of_the_stream_is_one_of_installevent() -> None:
    contract.check_event("streamInstallEvents", json.dumps(STEP))
    with pytest.raises(AssertionError, match="required"):
        contract.check_event("streamInstallEvents", json.dumps(_changed(STEP, {"at": ...})))


def _changed(value: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in (value | change).items() if each is not ...}


class Sent(NamedTuple):
    """An answer that the document has, and what its fields may not be; None takes one away."""

    api: ApiName
    method: str
    target: str
    status: int
    fields: dict[str, str]
    value: dict[str, Any] | None
    bad: list[tuple[str, str | None]]


def _problem(api: ApiName, code: str, status: int, **members: Any) -> dict[str, Any]:
    base = COORDINATOR if api == "coordinator" else OTHERS | {"detail": "Nothing."}
    return base | {"code": code, "status": status} | members


REPORT: Final = "/v1/join/registrations/x/events"
STREAM: Final = "/v1/installer/install/events"
SENT: Final = [
    Sent(
        "coordinator",
        "POST",
        PATH,
        204,
        {"x-coordinator-run-id": "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"},
        None,
        [("x-coordinator-run-id", None), ("x-coordinator-run-id", "no-uuid")],
    ),
    Sent(
        "coordinator",
        "POST",
        PATH,
        401,
        {"www-authenticate": 'Registry-Signature version="v1"'},
        _problem("coordinator", "event.unauthenticated", 401),
        [("www-authenticate", None), ("www-authenticate", 'Registry-Signature version="v1"-x')],
    ),
    Sent(
        "coordinator",
        "POST",
        PATH,
        405,
        {"allow": "POST"},
        _problem("coordinator", "request.method-not-allowed", 405),
        [("allow", None)],
    ),
    Sent(
        "coordinator",
        "POST",
        PATH,
        503,
        {"retry-after": "1"},
        _problem("coordinator", "service.unavailable", 503),
        [("retry-after", None), ("retry-after", "0"), ("retry-after", "soon")],
    ),
    Sent(
        "join",
        "POST",
        REPORT,
        503,
        {"retry-after": "1"},
        _problem("join", "UNAVAILABLE", 503),
        [("retry-after", None), ("retry-after", "0"), ("retry-after", "soon")],
    ),
    Sent(
        "installer",
        "GET",
        STREAM,
        401,
        {"www-authenticate": 'Bearer realm="installer"'},
        _problem("installer", "INSTALL_CODE_REFUSED", 401),
        [("www-authenticate", None), ("www-authenticate", "x")],
    ),
    Sent(
        "installer",
        "GET",
        STREAM,
        429,
        {"retry-after": "1"},
        _problem("installer", "INSTALL_CODE_LOCKED", 429),
        [("retry-after", None), ("retry-after", "0"), ("retry-after", "301"), ("retry-after", "soon")],
    ),
    Sent(
        "installer",
        "GET",
        STREAM,
        429,
        {"retry-after": "300"},
        _problem("installer", "INSTALL_CODE_LOCKED", 429),
        [],
    ),
    Sent(
        "installer",
        "GET",
        STREAM,
        200,
        {"cache-control": "no-store", "x-accel-buffering": "no"},
        None,
        [
            *(("cache-control", None), ("cache-control", "no-cache"), ("cache-control", "no-store-x")),
            *(("x-accel-buffering", None), ("x-accel-buffering", "yes"), ("x-accel-buffering", "no-x")),
        ],
    ),
]


@pytest.mark.parametrize("sent", SENT, ids=[f"{each.api}-{each.status}" for each in SENT])
def test_an_answer_has_its_fields_within_their_bounds(sent: Sent) -> None:
    assert _faults(sent, sent.fields) == []
    for name, value in sent.bad:
        fields = {field: each for field, each in (sent.fields | {name: value}).items() if each is not None}
        assert _faults(sent, fields) != [], (name, value)


def test_a_refusal_of_a_report_names_the_places_at_fault() -> None:
    sent = Sent("join", "POST", REPORT, 400, {}, _problem("join", "INVALID_INPUT", 400) | FAULTS, [])
    assert _faults(sent, {}) == []
    assert _faults(sent._replace(value=_problem("join", "INVALID_INPUT", 400)), {}) != []


def _faults(sent: Sent, fields: dict[str, str]) -> list[str]:
    kind = "application/problem+json" if sent.value else "text/event-stream"
    body = json.dumps(sent.value).encode() if sent.value else b": gatehouse\n\n" if sent.status == 200 else b""
    shown = fields if sent.status == 204 else fields | {"content-type": kind}
    answer = Answer(f"HTTP/1.1 {sent.status} -", tuple((shown | {"x-request-id": IDENTITY}).items()), body)
    return contract.faults(sent.api, sent.method, sent.target, answer)
