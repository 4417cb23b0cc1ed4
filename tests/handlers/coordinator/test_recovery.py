from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from handlers.coordinator.recovery import DETAILS, RECONCILE_REFUSALS, RETRY_REFUSALS, TOLD
from tests.support.contract import places
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.pretended import CALLING, FAR, leave_at_its_call, leave_in_doubt, leave_waiting, receipts_at
from tests.support.receivers import NEVER, Received, Receiver, Reply, always, of_json
from tests.support.wire import Answer

REASON: Final = {"reason": "A test wants it."}
UNUSABLE: Final = {
    "a failure": Reply(status=500),
    "a redirect": Reply(status=302, fields={"Location": "/elsewhere"}),
    "a success without content": Reply(status=204, fields={}, body=b""),
    "no JSON": Reply(body=b"<html>"),
    "JSON with a member twice": Reply(body=b'{"a":1,"a":2}'),
    "more bytes than the connection takes": of_json("x" * 2000),
    "a body that is cut off": Reply(body=b'{"a":1}', cut=3),
    "no answer in time": NEVER,
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def calling(receiver: Receiver, new_server: NewServer) -> Gatehouse:
    server = new_server()
    limits = {"timeoutSeconds": 0.5, "maxResponseBytes": 1000, "responseSchema": {"type": ["object", "string"]}}
    server.configure(connections={"crm": receipts_at(receiver.url) | limits})
    server.apply(CALLING)
    server.start()
    return server


def retry(server: Gatehouse, run: str, **more: Any) -> Answer:
    return server.operate("POST", f"/v1/runs/{run}/retry-same", REASON | more)


def reconcile(server: Gatehouse, run: str) -> Answer:
    return server.operate("POST", f"/v1/runs/{run}/reconcile", REASON)


def inspect(server: Gatehouse, run: str) -> Any:
    return server.operate("GET", f"/v1/runs/{run}/inspect").json


def conflicts(operation: str) -> set[str]:
    problem = places()[operation].content["responses"]["409"]["content"]["application/problem+json"]["schema"]
    return set(problem["allOf"][1]["properties"]["code"]["enum"])


def test_every_documented_conflict_has_its_words_and_no_other() -> None:
    assert {made(DETAILS[why]).code for why, made in RETRY_REFUSALS.items()} == conflicts("retrySame")
    refused = {made(DETAILS[why]).code for why, made in RECONCILE_REFUSALS.items()}
    assert refused | {each().code for each in TOLD.values()} == conflicts("reconcile")
    assert DETAILS.keys() == RETRY_REFUSALS.keys() | RECONCILE_REFUSALS.keys()


def test_a_run_in_doubt_is_due_at_once_when_it_is_retried(calling: Gatehouse) -> None:
    run = leave_in_doubt(calling, calling.deliver().run)
    before = calling.operate("GET", f"/v1/runs/{run}").json
    assert (before["state"], before["nextDueAt"]) == ("uncertain", None)
    retried = retry(calling, run)
    assert retried.status == 200
    assert retried.json == before | {"nextDueAt": retried.json["nextDueAt"]}
    assert retried.json["nextDueAt"] is not None
    assert calling.operate("GET", f"/v1/runs/{run}").json == retried.json


def test_a_run_that_waits_at_its_call_is_due_at_once_when_it_is_retried(calling: Gatehouse) -> None:
    run = leave_at_its_call(calling, calling.deliver().run, FAR)
    before = calling.operate("GET", f"/v1/runs/{run}").json
    assert (before["state"], before["nextDueAt"]) == ("waiting", before["deadlineAt"])
    retried = retry(calling, run).json
    assert retried["state"] == "waiting"
    assert retried["nextDueAt"] < before["nextDueAt"]


def test_a_command_that_was_not_received_needs_no_acceptance(calling: Gatehouse) -> None:
    run = leave_at_its_call(calling, calling.deliver().run, FAR, recovery="hold-after-dispatch")
    assert retry(calling, run).status == 200


def test_a_run_that_waits_for_a_time_is_not_retried(calling: Gatehouse) -> None:
    run = leave_waiting(calling, calling.deliver().run, FAR)
    assert retry(calling, run, acceptRepeat=True).outcome == (409, "retry.refused")
    assert reconcile(calling, run).outcome == (409, "reconcile.refused")


def test_a_run_that_was_cancelled_is_neither_retried_nor_reconciled(calling: Gatehouse) -> None:
    run = leave_in_doubt(calling, calling.deliver().run)
    assert calling.operate("POST", f"/v1/runs/{run}/cancel", REASON).status == 200
    assert retry(calling, run, acceptRepeat=True).outcome == (409, "retry.refused")
    assert reconcile(calling, run).outcome == (409, "reconcile.refused")


def test_a_call_that_may_take_effect_twice_is_sent_again_where_that_is_accepted(calling: Gatehouse) -> None:
    run = leave_in_doubt(calling, calling.deliver().run, recovery="hold-after-dispatch")
    assert retry(calling, run).outcome == (409, "mutation.uncertain")
    assert retry(calling, run, acceptRepeat=False).outcome == (409, "mutation.uncertain")
    assert retry(calling, run, acceptRepeat=True).status == 200


def test_the_reason_of_a_retry_is_in_the_audit_once(calling: Gatehouse) -> None:
    run = leave_in_doubt(calling, calling.deliver().run)
    reason = f"for {run} alone"
    assert retry(calling, run, reason=reason).status == 200
    assert (calling.state / "audit.jsonl").read_text().count(reason) == 1


@pytest.mark.parametrize(
    "body",
    [{}, {"reason": ""}, {"reason": "x" * 257}, {"reason": "x", "acceptRepeat": None}, {"reason": "x", "more": 1}, "x"],
)
def test_a_retry_has_a_reason_and_may_accept_a_repeat(body: object, calling: Gatehouse) -> None:
    run = leave_in_doubt(calling, calling.deliver().run)
    assert calling.operate("POST", f"/v1/runs/{run}/retry-same", body).outcome == (400, "request.invalid")
    assert calling.operate("GET", f"/v1/runs/{run}").json["nextDueAt"] is None


def test_a_receipt_is_the_result_of_the_call(calling: Gatehouse, receiver: Receiver) -> None:
    receiver.answer = always(of_json({"accepted": True}))
    asked = len(receiver.received)
    run = leave_in_doubt(calling, calling.deliver().run)
    reconciled = reconcile(calling, run).json
    assert (reconciled["state"], reconciled["step"], reconciled["uncertain"]) == ("waiting", "done", False)
    assert reconciled["nextDueAt"] is not None
    [request] = receiver.received[asked:]
    assert (request.method, request.target, request.body) == ("GET", f"/receipts/{run}.tell", b"")
    assert request.key is None
    step = inspect(calling, run)["steps"][1]
    assert (step["step"], step["state"]) == ("tell", "completed")
    told = [(attempt["result"], attempt["httpStatus"]) for attempt in step["attempts"]]
    assert told == [("unanswered", None), ("receipt-found", 200)]


def test_the_reason_of_a_reconciliation_is_in_the_audit_once(calling: Gatehouse, receiver: Receiver) -> None:
    receiver.answer = always(of_json({}))
    run = leave_in_doubt(calling, calling.deliver().run)
    reason = f"for {run} alone"
    assert calling.operate("POST", f"/v1/runs/{run}/reconcile", {"reason": reason}).status == 200
    assert (calling.state / "audit.jsonl").read_text().count(reason) == 1


@pytest.mark.parametrize("reply", UNUSABLE.values(), ids=UNUSABLE)
def test_an_answer_that_is_no_receipt_leaves_the_run_as_it_is(
    reply: Reply, calling: Gatehouse, receiver: Receiver
) -> None:
    receiver.answer = always(reply)
    run = leave_in_doubt(calling, calling.deliver().run)
    before = inspect(calling, run)
    assert reconcile(calling, run).outcome == (409, "mutation.uncertain")
    assert inspect(calling, run) == before


def test_a_receiver_that_is_away_leaves_the_run_as_it_is(new_server: NewServer) -> None:
    with Receiver(refusing=True) as away:
        server = new_server()
        server.configure(connections={"crm": receipts_at(away.url)})
        server.apply(CALLING)
        with server:
            run = leave_in_doubt(server, server.deliver().run)
            assert reconcile(server, run).outcome == (409, "mutation.uncertain")
            assert server.operate("GET", f"/v1/runs/{run}").json["state"] == "uncertain"


@pytest.mark.parametrize(("status", "code"), [(404, "reconcile.refused"), (410, "receipt.expired")])
def test_a_receiver_without_a_receipt_leaves_the_run_as_it_is(
    status: int, code: str, calling: Gatehouse, receiver: Receiver
) -> None:
    receiver.answer = always(of_json({}, status))
    run = leave_in_doubt(calling, calling.deliver().run)
    before = inspect(calling, run)
    assert reconcile(calling, run).outcome == (409, code)
    assert inspect(calling, run) == before


def test_a_run_that_moves_while_the_receiver_is_asked_is_left_to_what_moved_it(
    calling: Gatehouse, receiver: Receiver
) -> None:
    run = leave_in_doubt(calling, calling.deliver().run)

    def answer(_: Received) -> Reply:
        assert calling.operate("POST", f"/v1/runs/{run}/cancel", REASON).status == 200
        return of_json({})

    receiver.answer = answer
    assert reconcile(calling, run).outcome == (409, "reconcile.raced")
    assert calling.operate("GET", f"/v1/runs/{run}").json["state"] == "cancelled"


def test_a_receiver_that_was_configured_since_is_not_asked(receiver: Receiver, new_server: NewServer) -> None:
    server = new_server()
    server.configure(connections={"crm": receipts_at("http://127.0.0.1:9")})
    server.apply(CALLING)
    with server:
        run = leave_in_doubt(server, server.deliver().run)
        server.configure(connections={"crm": receipts_at(receiver.url)})
        server.restart()
        asked = len(receiver.received)
        assert reconcile(server, run).outcome == (409, "reconcile.unsupported")
        assert len(receiver.received) == asked


@pytest.mark.parametrize("run", ["019d9079-e78a-7c31-8f02-6b1d4e9a5c77", "x", "%00", "%2F", "-"])
def test_a_run_that_there_is_not_is_neither_retried_nor_reconciled(run: str, calling: Gatehouse) -> None:
    assert retry(calling, run).outcome == (404, "run.not-visible")
    assert reconcile(calling, run).outcome == (404, "run.not-visible")


def test_a_run_is_found_by_its_id_in_any_letters(calling: Gatehouse, receiver: Receiver) -> None:
    receiver.answer = always(of_json({}))
    run = leave_in_doubt(calling, calling.deliver().run)
    assert re.search("[a-f]", run)
    assert retry(calling, run.upper()).json["runId"] == run
    assert reconcile(calling, run.upper()).json["runId"] == run
