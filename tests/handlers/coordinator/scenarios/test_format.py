from __future__ import annotations

from typing import Any

import pytest

from handlers.coordinator.scenarios.format import check_format

WHOLE: dict[str, Any] = {
    "name": "all members",
    "workflow": "case-decision",
    "event": {"trigger": "case-created", "id": "e", "time": "2026-01-05T09:00:00Z", "data": {}, "subject": {}},
    "at": "2026-01-05T09:00:00Z",
    "connections": {"registry": {"recovery": "same-command", "timeoutSeconds": 0.5, "responseSchema": True}},
    "replies": {"ask": [{"status": 503, "retryAfter": 3}, {"fault": "timeout", "afterSeconds": 1}]},
    "receipts": {"ask": [{"status": 200, "body": None, "always": True}]},
    "acts": [{"act": "retry-same", "afterSeconds": 0.5, "acceptRepeat": True}],
    "expect": {
        "path": ["ask"],
        "state": "failed",
        "outcome": None,
        "output": {},
        "failureCode": "call.refused",
        "elapsedSeconds": 1.5,
        "calls": [{"step": "ask", "method": "GET", "path": "/", "query": "", "body": None, "receipt": True}],
    },
}


def test_a_scenario_may_have_every_member_that_is_described() -> None:
    assert check_format(WHOLE) == []
    assert check_format({"name": "few", "input": 1, "expect": {"refused": "input.invalid"}}) == []


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        ({"nme": "x"}, "nme", "no such member"),
        ({"name": ""}, "name", "must have at least 1 character"),
        ({"at": "tomorrow"}, "at", "must be an RFC 3339 time"),
        ({"connections": {"registry": {"recovery": "hope"}}}, "connections.registry.recovery", "must be one of read"),
        ({"replies": {"ask": [{"status": 100}]}}, "replies.ask.0.status", "must be at least 200"),
        ({"replies": {"ask": [{"fault": "rain"}]}}, "replies.ask.0.fault", "must be one of timeout"),
        ({"acts": [{"act": "wait", "afterSeconds": 1}]}, "acts.0.act", "must be one of cancel, retry-same"),
        ({"acts": [{"act": "cancel"}]}, "acts.0", "the member afterSeconds is missing"),
        ({"expect": {"state": "done"}}, "expect.state", "must be one of admitted"),
        ({"expect": {"calls": [{"url": "/"}]}}, "expect.calls.0.url", "no such member"),
        ({"expect": {"elapsedSeconds": "5"}}, "expect.elapsedSeconds", "must be a number"),
    ],
)
def test_what_is_not_of_the_form_is_told(change: dict[str, Any], place: str, message: str) -> None:
    [fault] = check_format(WHOLE | change)
    assert ".".join(map(str, fault.path)) == place
    assert message in fault.message
