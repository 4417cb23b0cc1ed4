from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handlers.coordinator.scenarios import run
from handlers.coordinator.scenarios.run import Observed, carry_out
from tests.handlers.coordinator.scenarios.staging import made, scenario

pytestmark = pytest.mark.anyio

ACCEPTED = {"status": 202, "body": {"state": "pending"}}
DECIDED = {"status": 200, "body": {"state": "granted"}}


async def observed(folder: Path, definition: dict[str, Any] | None = None, **members: Any) -> Observed:
    package = made(folder, **(definition or {}))
    return await carry_out(scenario(folder, package, **members), package)


async def test_a_run_goes_from_step_to_step_and_the_clock_from_one_thing_that_is_due_to_the_next(
    tmp_path: Path,
) -> None:
    seen = await observed(tmp_path, {"deadlineSeconds": 7200}, replies={"ask": [ACCEPTED]})
    assert seen.path == ("ask", "decide", "pause", "done")
    assert (seen.state, seen.outcome, seen.output) == ("completed", "decided", {"state": "pending"})
    assert (seen.failure_code, seen.elapsed_seconds, seen.troubles) == (None, 3600, ())
    [sent] = seen.calls
    assert (sent.step, sent.method, sent.path) == ("ask", "POST", "/cases/C-1/decision")
    assert sent.query == f"run={run.RUN_ID}&wait=true"
    assert sent.body == {"at": "2026-01-05T09:00:00.000Z", "urgent": "no"}


async def test_an_event_makes_the_input_by_its_trigger(tmp_path: Path) -> None:
    event = {"trigger": "case-created", "data": {"caseId": "C-2"}}
    seen = await observed(tmp_path, replies={"ask": [DECIDED]}, input=..., event=event)
    assert (seen.refused, seen.calls[0].path) == (None, "/cases/C-2/decision")


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"input": {}}, "input.invalid"),
        ({"input": ..., "event": {"trigger": "case-created", "data": {"id": 1}}}, "input.invalid"),
        ({"input": ..., "event": {"trigger": "case-created", "type": "another"}}, "event.invalid"),
        ({"input": ..., "event": {"trigger": "case-created", "data": "x" * 131_072}}, "event.too-large"),
    ],
)
async def test_what_admission_refuses_makes_no_run(tmp_path: Path, members: dict[str, Any], code: str) -> None:
    assert await observed(tmp_path, **members) == Observed(refused=code)


async def test_a_call_without_a_reply_left_and_a_reply_that_nobody_asks_for_are_told(tmp_path: Path) -> None:
    missing = await observed(tmp_path, replies={"ask": [{"fault": "refused-connection"}]})
    assert missing.troubles == ("replies.ask: 1 given, and it was sent once more",)
    left = await observed(tmp_path, replies={"ask": [DECIDED, DECIDED]})
    assert (left.outcome, left.troubles) == ("decided", ("replies.ask: 2 given, 1 used",))


async def test_the_deadline_ends_what_is_tried_again_and_again(tmp_path: Path) -> None:
    away = {"status": 503, "retryAfter": 100, "always": True}
    connections = {"registry": {"recovery": "same-command"}}
    seen = await observed(tmp_path, {"deadlineSeconds": 1000}, replies={"ask": [away]}, connections=connections)
    assert (seen.state, seen.failure_code, seen.elapsed_seconds) == ("failed", "deadline.passed", 1000)
    assert (len(seen.calls), seen.troubles) == (10, ())


async def test_a_run_that_would_be_taken_up_for_ever_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MAX_CLAIMS", 20)
    seen = await observed(tmp_path, replies={"ask": [{"fault": "refused-connection", "always": True}]})
    assert seen.troubles == ("the run was taken up 20 times without an end: a retryAfter makes that less often",)


async def test_what_was_sent_without_an_answer_waits_for_a_person_who_may_send_it_again(tmp_path: Path) -> None:
    replies = {"ask": [{"fault": "timeout"}, DECIDED]}
    connections = {"registry": {"timeoutSeconds": 3}}
    held = await observed(tmp_path, replies={"ask": replies["ask"][:1]}, connections=connections)
    assert (held.state, held.elapsed_seconds) == ("uncertain", 3)
    accepted = {"act": "retry-same", "afterSeconds": 60, "acceptRepeat": True}
    seen = await observed(tmp_path, replies=replies, acts=[accepted])
    assert (seen.outcome, seen.elapsed_seconds, len(seen.calls)) == ("decided", 60, 2)
    refused = await observed(tmp_path, replies={"ask": replies["ask"][:1]}, acts=[{**accepted, "acceptRepeat": False}])
    assert (refused.state, refused.troubles) == (
        "uncertain",
        ("the act retry-same after 60 s was refused: mutation.uncertain",),
    )


async def test_a_receipt_is_asked_for_where_the_connection_has_one(tmp_path: Path) -> None:
    seen = await observed(
        tmp_path,
        connections={"registry": {"recovery": "same-command-and-receipt"}},
        replies={"ask": [{"fault": "cut-off"}]},
        receipts={"ask": [{"status": 200, "body": {"state": "granted"}}]},
    )
    assert [(sent.method, sent.receipt) for sent in seen.calls] == [("POST", False), ("GET", True)]
    assert (seen.calls[1].path, seen.output) == (f"/receipts/{run.RUN_ID}.ask", {"state": "granted"})


async def test_a_run_is_cancelled_where_it_waits_and_where_its_call_is_under_way(tmp_path: Path) -> None:
    waiting = await observed(tmp_path, replies={"ask": [ACCEPTED]}, acts=[{"act": "cancel", "afterSeconds": 60}])
    assert (waiting.state, waiting.path, waiting.elapsed_seconds) == ("cancelled", ("ask", "decide", "pause"), 60)
    slow = {**DECIDED, "afterSeconds": 4}
    calling = await observed(tmp_path, replies={"ask": [slow]}, acts=[{"act": "cancel", "afterSeconds": 2}])
    assert (calling.state, calling.path, calling.elapsed_seconds) == ("cancelled", ("ask",), 4)
