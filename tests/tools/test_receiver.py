from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tools.receiver import MAX_BODY_BYTES, MAX_BYTES, MAX_NOTICES, Receiver, Recorder, Sent

NOTICE = Sent("POST", "/notices", "run.notify", b'{"caseId":"C-1"}')


@pytest.fixture
def told() -> list[Mapping[str, Any]]:
    return []


@pytest.fixture
def recorder(told: list[Mapping[str, Any]]) -> Recorder:
    return Recorder(told.append)


def notices(recorder: Recorder) -> Any:
    return recorder.look("/notices").value["notices"]


def test_what_is_sent_is_kept_told_and_answered(recorder: Recorder, told: list[Mapping[str, Any]]) -> None:
    status, value = recorder.receive(NOTICE)
    assert (status, set(value)) == (201, {"noticeId", "receivedAt"})
    about = {"method": "POST", "target": "/notices", "idempotencyKey": "run.notify", "deliveries": 1}
    entry = {**value, **about, "body": {"caseId": "C-1"}}
    assert notices(recorder) == [entry]
    assert told == [entry | {"status": 201}]


def test_the_same_command_has_the_same_answer_again(recorder: Recorder, told: list[Mapping[str, Any]]) -> None:
    assert recorder.receive(NOTICE) == recorder.receive(NOTICE)
    assert [entry["deliveries"] for entry in told] == [1, 2]
    assert len(notices(recorder)) == 1


@pytest.mark.parametrize("change", [{"body": b"{}"}, {"target": "/notices?x"}, {"method": "PUT"}])
def test_another_command_with_the_key_is_a_conflict(
    recorder: Recorder, told: list[Mapping[str, Any]], change: dict[str, Any]
) -> None:
    recorder.receive(NOTICE)
    assert recorder.receive(NOTICE._replace(**change)).status == 409
    assert [entry["status"] for entry in told] == [201, 409]
    assert notices(recorder)[0]["deliveries"] == 1


def test_without_a_key_each_is_a_command_of_its_own(recorder: Recorder) -> None:
    first, second = recorder.receive(NOTICE._replace(key=None)), recorder.receive(NOTICE._replace(key=None))
    assert first.value["noticeId"] != second.value["noticeId"]
    assert len(notices(recorder)) == 2


def test_a_receipt_is_the_answer_under_the_key(recorder: Recorder) -> None:
    status, value = recorder.receive(NOTICE._replace(key="a/b c"))
    assert status == 201
    assert recorder.look("/receipts/a%2Fb%20c") == (200, value)
    assert recorder.look("/receipts/other").status == 404


@pytest.mark.parametrize(("body", "kept"), [(b"", None), (b"\xff", "\ufffd"), (b"[" * 50_000, "[" * 50_000)])
def test_a_body_that_is_no_json_is_kept_as_text(recorder: Recorder, body: bytes, kept: Any) -> None:
    recorder.receive(NOTICE._replace(body=body))
    assert notices(recorder)[0]["body"] == kept


def test_memory_has_an_end(recorder: Recorder) -> None:
    for number in range(MAX_NOTICES + 1):
        recorder.receive(NOTICE._replace(key=str(number)))
    assert len(notices(recorder)) == MAX_NOTICES
    assert recorder.look("/receipts/0").status == 404
    for number in range(MAX_BYTES // MAX_BODY_BYTES + 1):
        recorder.receive(NOTICE._replace(key=f"long {number}", body=b"x" * MAX_BODY_BYTES))
    assert len(notices(recorder)) == MAX_BYTES // MAX_BODY_BYTES


def exchange(recorder: Recorder, method: str, path: str, *parts: bytes, query: bytes = b"") -> tuple[int, bytes]:
    """What the application answers to a request whose body comes in these parts."""
    coming = [{"body": part, "more_body": True} for part in parts] + [{"more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return coming.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"idempotency-key", b"k")]
    scope = {"method": method, "raw_path": path.encode(), "query_string": query, "headers": headers}
    asyncio.run(Receiver(recorder)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"]


def test_a_request_becomes_a_command_with_its_target_and_its_whole_body(recorder: Recorder) -> None:
    status, body = exchange(recorder, "POST", "/notices", b'{"a"', b":1}", query=b"x=1")
    assert (status, json.loads(body)) == (201, recorder.look("/receipts/k").value)
    assert (notices(recorder)[0]["target"], notices(recorder)[0]["body"]) == ("/notices?x=1", {"a": 1})
    assert json.loads(exchange(recorder, "GET", "/notices")[1]) == {"notices": notices(recorder)}
    assert exchange(recorder, "HEAD", "/notices") == (200, b"")


def test_a_body_that_is_too_long_is_refused_and_not_read_to_its_end(recorder: Recorder) -> None:
    parts = [b"x" * MAX_BODY_BYTES, b"x", b"never read"]
    assert exchange(recorder, "POST", "/notices", *parts)[0] == 413
    assert notices(recorder) == []
