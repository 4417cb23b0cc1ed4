from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from handlers.coordinator.runs import REFUSAL_DETAILS, REFUSALS
from tests.support.contract import documented
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.pretended import CALLING, FAR, leave_in_doubt, leave_in_hand, leave_waiting, receipts_at

START = {"flow": "case-follow-up", "input": {"caseId": "C-1"}}
NOT_VISIBLE = (404, "run.not-visible")


@pytest.fixture(scope="module")
def listed(new_server: NewServer) -> tuple[Gatehouse, list[str]]:
    """A server with 25 runs, newest first, the fifth and the sixth of them cancelled."""
    server = new_server()
    server.start()
    runs = [server.deliver().run for _ in range(25)][::-1]
    for run in runs[4:6]:
        assert cancel(server, run)["state"] == "cancelled"
    return server, runs


@pytest.fixture(scope="module")
def calling(new_server: NewServer) -> Gatehouse:
    """A server of which every run makes a call, and that has no executor."""
    server = new_server()
    server.configure(connections={"crm": receipts_at("http://127.0.0.1:9")})
    server.apply(CALLING)
    server.start()
    return server


def cancel(server: Gatehouse, run: str) -> dict[str, Any]:
    answer = server.operate("POST", f"/v1/runs/{run}/cancel", {"reason": "A test wants it."})
    assert answer.status == 200
    return dict(answer.json)


def page(server: Gatehouse, query: str = "") -> list[str]:
    answer = server.operate("GET", f"/v1/runs{query}")
    assert answer.status == 200
    return [run["runId"] for run in answer.json["runs"]]


def test_each_refusal_of_storage_has_a_documented_problem_and_words_for_it() -> None:
    assert REFUSALS.keys() == REFUSAL_DETAILS.keys()
    raised = {make("detail") for make in REFUSALS.values()}
    known = {(answer.status, answer.code) for answer in documented() if answer.operation == "startRun"}
    assert {(problem.status, problem.code) for problem in raised} <= known


def test_a_run_is_started_once_by_its_key(server: Gatehouse) -> None:
    key = str(uuid4())
    started = server.begin(START, key)
    assert started.status == 201
    assert started.json["runId"] == started.run
    assert started.header("Location") == f"/v1/runs/{started.run}"
    again = server.begin(START, key)
    assert again.status == 200
    assert again.json == started.json
    assert again.header("Location") == started.header("Location")


def test_a_repeat_is_known_by_its_value_however_it_is_spelled(server: Gatehouse) -> None:
    fields = server.operator | {"Content-Type": "application/json", "Idempotency-Key": str(uuid4())}
    first = server.send("POST", "/v1/runs", fields, json.dumps(START).encode())
    spelled = b'{ "input": {"\\u0063aseId": "C-1"},\n "flow": "case-follow-up" }'
    assert server.send("POST", "/v1/runs", fields, spelled).run == first.run


@pytest.mark.parametrize("other", [{"input": {"caseId": "C-2"}}, {"flow": "another"}])
def test_another_request_under_the_key_is_refused(other: dict[str, Any], server: Gatehouse) -> None:
    key = str(uuid4())
    assert server.begin(START, key).status == 201
    assert server.begin(START | other, key).outcome == (409, "idempotency.key-reused")


def test_a_repeat_shows_the_run_as_it_is_by_then(server: Gatehouse) -> None:
    key = str(uuid4())
    cancelled = cancel(server, server.begin(START, key).run)
    assert server.begin(START, key).json == cancelled


def test_a_repeat_is_found_while_held(own_server: Gatehouse) -> None:
    run = own_server.begin(START, "a key").run
    assert own_server.hold().status == 200
    assert own_server.begin(START, "a key").run == run
    assert own_server.begin(START, "another key").outcome == (409, "admission.held")


@pytest.mark.parametrize("key", ["", " ", "x" * 257, "caf\u00e9".encode("latin-1"), "a\tb"])
def test_a_key_that_is_not_visible_ascii_of_256_characters_is_refused(key: str | bytes, server: Gatehouse) -> None:
    fields = server.operator | {"Content-Type": "application/json", "Idempotency-Key": key}
    answer = server.send("POST", "/v1/runs", fields, json.dumps(START).encode())
    assert answer.outcome == (400, "idempotency.key-invalid")


def test_a_start_without_a_key_or_with_two_is_refused(server: Gatehouse) -> None:
    assert server.operate("POST", "/v1/runs", START).outcome == (400, "idempotency.key-invalid")
    fields = [*server.operator.items(), ("Content-Type", "application/json"), *[("Idempotency-Key", "twice")] * 2]
    answer = server.send("POST", "/v1/runs", fields, json.dumps(START).encode())
    assert answer.outcome == (400, "idempotency.key-invalid")


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ({"flow": "nothing", "input": {"caseId": "C-1"}}, (404, "workflow.not-served")),
        ({"flow": "x" * 65, "input": {}}, (400, "request.invalid")),
        ({"flow": "", "input": {}}, (400, "request.invalid")),
        ({"flow": "case-follow-up"}, (400, "request.invalid")),
        ({"input": {"caseId": "C-1"}}, (400, "request.invalid")),
        (START | {"more": 1}, (400, "request.invalid")),
        ([], (400, "request.invalid")),
        (START | {"input": {}}, (400, "input.invalid")),
        (START | {"input": {"caseId": "C-1", "more": 1}}, (400, "input.invalid")),
        (START | {"input": None}, (400, "input.invalid")),
        (START | {"input": "C-1"}, (400, "input.invalid")),
        (START | {"input": {"caseId": "x" * 200_000}}, (400, "input.invalid")),
    ],
)
def test_a_start_that_no_workflow_takes_is_refused_and_its_key_stays_free(
    value: object, outcome: tuple[int, str], server: Gatehouse
) -> None:
    key = str(uuid4())
    assert server.begin(value, key).outcome == outcome
    assert server.begin(START, key).status == 201


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"flow":"case-follow-up","flow":"case-follow-up","input":{"caseId":"C-1"}}',
        b'{"flow":"case-follow-up","input":{"caseId":"C-1","\\u0063aseId":"C-1"}}',
        b'{"flow":"case-follow-up","input":NaN}',
        b'{"flow":"case-follow-up","input":{"caseId":"\\ud800"}}',
        b'{"flow":"case-follow-up","input":' + b"[" * 64 + b"]" * 64 + b"}",
        b'{"flow":"case-follow-up","input":' + b"[" * 100_000,
        b'{"flow":"case-follow-up","input":1e400}',
    ],
)
def test_a_body_that_is_not_strict_json_is_refused(body: bytes, server: Gatehouse) -> None:
    fields = server.operator | {"Content-Type": "application/json", "Idempotency-Key": str(uuid4())}
    assert server.send("POST", "/v1/runs", fields, body).outcome == (400, "request.invalid")


def test_a_body_need_not_be_canonical(server: Gatehouse) -> None:
    fields = server.operator | {"Content-Type": "application/json", "Idempotency-Key": str(uuid4())}
    body = b' {"input" : {"caseId": "\\u00e9\\/"}, "flow": "case-follow-up"}\n'
    assert server.send("POST", "/v1/runs", fields, body).status == 201


def test_a_run_has_every_member_from_its_start(server: Gatehouse) -> None:
    run = server.begin(START, str(uuid4())).json
    unknown = {name for name, value in run.items() if value is None}
    assert unknown >= {"outcome", "output", "failureCode"}
    assert run["workflowId"] == "case-follow-up"
    assert run["step"] == "pause"
    assert run["runId"][14] == "7"
    assert (run["uncertain"], run["cancelRequested"], run["restoreReviewRequired"]) == (False, False, False)


def test_a_run_is_shown_and_inspected_by_its_id_in_any_letters(server: Gatehouse) -> None:
    run = server.begin(START, str(uuid4())).json
    for spelled in (run["runId"], run["runId"].upper()):
        assert server.operate("GET", f"/v1/runs/{spelled}").json == run
        inspected = server.operate("GET", f"/v1/runs/{spelled}/inspect").json
        assert inspected == {"run": run, "steps": [], "recovery": None}


@pytest.mark.parametrize(
    "run", ["019d9079-e78a-7c31-8f02-6b1d4e9a5c77", "x", "019d9079e78a7c318f026b1d4e9a5c77", "%00", "%2F", "%ff", "-"]
)
def test_a_run_that_there_is_not_is_not_visible_whatever_its_id(run: str, server: Gatehouse) -> None:
    assert server.operate("GET", f"/v1/runs/{run}").outcome == NOT_VISIBLE
    assert server.operate("GET", f"/v1/runs/{run}/inspect").outcome == NOT_VISIBLE
    assert server.operate("POST", f"/v1/runs/{run}/cancel", {"reason": "A test."}).outcome == NOT_VISIBLE


def test_a_page_has_20_runs_the_newest_first(listed: tuple[Gatehouse, list[str]]) -> None:
    server, runs = listed
    assert page(server) == runs[:20]
    assert page(server, "?limit=1") == runs[:1]
    assert page(server, "?limit=100") == runs


def test_the_next_page_begins_before_a_run_that_need_not_exist(listed: tuple[Gatehouse, list[str]]) -> None:
    server, runs = listed
    assert page(server, f"?limit=10&before={runs[9]}") == runs[10:20]
    assert page(server, f"?before={runs[9].upper()}") == runs[10:]
    assert page(server, f"?before={runs[-1]}") == []
    assert page(server, "?limit=3&before=ffffffff-ffff-4fff-bfff-ffffffffffff") == runs[:3]


def test_runs_are_listed_by_their_state(listed: tuple[Gatehouse, list[str]]) -> None:
    server, runs = listed
    assert page(server, "?state=cancelled") == runs[4:6]
    assert page(server, f"?state=cancelled&before={runs[4]}") == runs[5:6]
    assert page(server, "?state=admitted&limit=100") == runs[:4] + runs[6:]
    assert page(server, "?state=completed") == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "request.limit-out-of-range"),
        ("limit=101", "request.limit-out-of-range"),
        ("limit=", "request.limit-out-of-range"),
        ("limit=1&limit=1", "request.limit-out-of-range"),
        ("state=", "request.invalid"),
        ("state=ADMITTED", "request.invalid"),
        ("state=admitted&state=admitted", "request.invalid"),
        ("before=x", "request.invalid"),
        ("before=%ff", "request.invalid"),
        ("before=", "request.invalid"),
    ],
)
def test_a_page_is_asked_for_as_documented(query: str, code: str, server: Gatehouse) -> None:
    assert server.operate("GET", f"/v1/runs?{query}").outcome == (400, code)


def test_a_query_that_the_document_does_not_know_is_ignored(server: Gatehouse) -> None:
    assert server.operate("GET", "/v1/runs?Limit=0&%ff=1&&=&x").status == 200


def test_a_run_nobody_has_taken_up_is_cancelled_at_once_and_stays_so(server: Gatehouse) -> None:
    started = server.begin(START, str(uuid4())).json
    cancelled = cancel(server, started["runId"])
    assert cancelled == started | {"state": "cancelled", "cancelRequested": True}
    assert cancel(server, started["runId"]) == cancelled
    assert server.operate("GET", f"/v1/runs/{started['runId']}").json == cancelled


def test_the_reason_of_a_cancellation_is_in_the_audit_once(own_server: Gatehouse) -> None:
    run = own_server.deliver().run
    cancel(own_server, run)
    cancel(own_server, run)
    assert (own_server.state / "audit.jsonl").read_text().count("A test wants it.") == 1


def test_a_run_is_inspected_with_the_steps_that_it_has_entered(calling: Gatehouse) -> None:
    run = leave_in_doubt(calling, calling.deliver().run)
    inspected = calling.operate("GET", f"/v1/runs/{run}/inspect").json
    assert inspected["run"] == calling.operate("GET", f"/v1/runs/{run}").json
    assert inspected["recovery"] == "same-command-and-receipt"
    paused, told = inspected["steps"]
    assert paused == {"step": "pause", "type": "wait-until", "state": "completed", "attempts": []}
    [attempt] = told.pop("attempts")
    assert told == {"step": "tell", "type": "call", "state": "uncertain"}
    assert attempt["startedAt"] <= attempt["endedAt"]
    assert (attempt["number"], attempt["result"], attempt["httpStatus"]) == (1, "unanswered", None)


def test_an_attempt_under_way_has_no_end_yet(calling: Gatehouse) -> None:
    run = leave_in_hand(calling, calling.deliver().run)
    inspected = calling.operate("GET", f"/v1/runs/{run}/inspect").json
    assert (inspected["run"]["state"], inspected["recovery"]) == ("running", None)
    [attempt] = inspected["steps"][1]["attempts"]
    assert (attempt["endedAt"], attempt["result"], attempt["httpStatus"]) == (None, None, None)


def test_a_run_that_waits_is_cancelled_at_once(calling: Gatehouse) -> None:
    run = leave_waiting(calling, calling.deliver().run, FAR)
    before = calling.operate("GET", f"/v1/runs/{run}").json
    assert before["state"] == "waiting"
    assert cancel(calling, run) == before | {"state": "cancelled", "cancelRequested": True, "nextDueAt": None}


def test_a_run_that_is_cancelled_in_doubt_stays_uncertain_and_shows_what_was_sent(calling: Gatehouse) -> None:
    run = leave_in_doubt(calling, calling.deliver().run)
    cancelled = cancel(calling, run)
    assert (cancelled["state"], cancelled["uncertain"]) == ("cancelled", True)
    inspected = calling.operate("GET", f"/v1/runs/{run}/inspect").json
    assert (inspected["steps"][1]["state"], inspected["recovery"]) == ("cancelled", None)
    assert [attempt["result"] for attempt in inspected["steps"][1]["attempts"]] == ["unanswered"]


def test_a_run_that_is_in_hand_is_asked_to_end(calling: Gatehouse) -> None:
    run = leave_in_hand(calling, calling.deliver().run)
    asked = cancel(calling, run)
    assert (asked["state"], asked["cancelRequested"]) == ("running", True)
    assert cancel(calling, run) == asked


def test_a_restore_marks_the_runs_that_have_not_ended(new_server: NewServer) -> None:
    with new_server() as server:
        live, ended = (server.deliver().run for _ in range(2))
        cancel(server, ended)
        assert server.hold().status == 200
        marked = {run: server.operate("GET", f"/v1/runs/{run}").json["restoreReviewRequired"] for run in (live, ended)}
        assert marked == {live: True, ended: False}
        assert cancel(server, live)["restoreReviewRequired"] is False


@pytest.mark.parametrize("value", [{}, {"reason": ""}, {"reason": "x" * 257}, {"reason": "x", "more": 1}, "x"])
def test_a_cancellation_has_a_reason(value: object, server: Gatehouse) -> None:
    run = server.begin(START, str(uuid4())).run
    answer = server.operate("POST", f"/v1/runs/{run}/cancel", value)
    assert answer.outcome == (400, "request.reason-invalid")
    assert server.operate("GET", f"/v1/runs/{run}").json["state"] == "admitted"
