from __future__ import annotations

from typing import Any

import orjson
import pytest

from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.execution.course import failed
from handlers.coordinator.execution.exchange import Answered, Encoded, Exchange, NotConnected, TooLarge, Unanswered
from handlers.coordinator.execution.verdict import MAX_RESULT_BYTES, judge
from handlers.coordinator.workflows.workflow import Workflow
from storage.execution.records import (
    Advance,
    AttemptEnd,
    AttemptKind,
    AttemptResult,
    Doubt,
    Move,
    Position,
    Recovery,
    StepResult,
    Wait,
)
from tests.handlers.coordinator.execution.positions import (
    DEADLINE,
    NOW,
    RECOVERIES,
    command_of,
    flow,
    reading,
    registry,
    sent,
)

# With all of the chance, the first back-off is a second, and the second two.
FIRST, SECOND = NOW + 1_000, NOW + 2_000

RETRYABLE: list[Exchange] = [Answered(429), Answered(502), Answered(503), Answered(504)]
FAILED_THERE: list[Exchange] = [Answered(500), Answered(501), Answered(505), Answered(599)]
REFUSED: list[Exchange] = [Answered(400), Answered(401), Answered(404), Answered(409), Answered(410), Answered(499)]
REDIRECTED: list[Exchange] = [Answered(300), Answered(301), Answered(304), Answered(307), Answered(399)]
UNREADABLE: list[Exchange] = [Answered(200, b"{"), Answered(201, b"<html>"), Encoded(200)]
TOO_LARGE: list[Exchange] = [TooLarge(200), Answered(200, b'"%s"' % (b"x" * MAX_RESULT_BYTES))]


def judged(
    exchange: Exchange,
    *before: AttemptResult,
    workflow: Workflow | None = None,
    recovery: Recovery = "same-command",
    connection: Connection | None = None,
    kind: AttemptKind = "send",
    now: int = NOW,
    **members: Any,
) -> tuple[Move, AttemptEnd]:
    workflow = workflow or flow()
    connection = connection or registry(recovery)
    position: Position = sent(workflow, connection, *before, **members)
    return judge(
        exchange,
        position=position,
        command=command_of(workflow, connection),
        connection=connection,
        kind=kind,
        workflow=workflow,
        now=now,
        jitter=lambda: 1.0,
    )


def move(exchange: Exchange, *before: AttemptResult, **options: Any) -> Move:
    return judged(exchange, *before, **options)[0]


def result(exchange: Exchange, **options: Any) -> AttemptResult:
    return judged(exchange, **options)[1].result


@pytest.mark.parametrize(
    ("exchanges", "expected"),
    [
        (RETRYABLE, "retryable"),
        (FAILED_THERE, "failed-there"),
        (REFUSED, "refused"),
        (REDIRECTED, "redirected"),
        (UNREADABLE, "unreadable"),
        (TOO_LARGE, "too-large"),
        ([NotConnected()], "not-connected"),
        ([Unanswered()], "unanswered"),
        ([Answered(200, b"{}"), Answered(204), Answered(299, b"1")], "completed"),
    ],
)
def test_an_attempt_is_told_by_what_came_of_it(exchanges: list[Exchange], expected: AttemptResult) -> None:
    for exchange in exchanges:
        status = getattr(exchange, "status", None)
        assert judged(exchange)[1] == AttemptEnd(result=expected, http_status=status)
        assert judged(exchange, workflow=reading())[1] == AttemptEnd(result=expected, http_status=status)


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("workflow", [flow(), reading()], ids=["mutation", "read"])
@pytest.mark.parametrize(
    ("status", "body", "kept"),
    [(200, b'{"b": 1.0, "a": []}', '{"a":[],"b":1}'), (204, b"", None), (201, b"", None), (200, b"null", "null")],
)
def test_a_success_completes_the_step(
    recovery: Recovery, workflow: Workflow, status: int, body: bytes, kept: str | None
) -> None:
    completed = Advance("decide", StepResult(status, kept, NOW))
    assert move(Answered(status, body), workflow=workflow, recovery=recovery) == completed
    late = move(Answered(status, body), "unanswered", workflow=workflow, recovery=recovery, now=DEADLINE + 5)
    assert late == Advance("decide", StepResult(status, kept, DEADLINE + 5))


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("workflow", [flow(), reading()], ids=["mutation", "read"])
def test_a_refusal_and_a_redirection_are_final(recovery: Recovery, workflow: Workflow) -> None:
    for exchange in REFUSED:
        assert move(exchange, workflow=workflow, recovery=recovery) == failed("call.refused")
        assert move(exchange, "unanswered", workflow=workflow, recovery=recovery) == failed("call.refused")
    for exchange in REDIRECTED:
        assert move(exchange, workflow=workflow, recovery=recovery) == failed("call.redirected")


@pytest.mark.parametrize("exchange", [*RETRYABLE, *FAILED_THERE, NotConnected(), Unanswered()], ids=str)
def test_a_read_that_failed_is_tried_again(exchange: Exchange) -> None:
    assert move(exchange, workflow=reading()) == Wait(FIRST)
    assert move(exchange, "unanswered", workflow=reading()) == Wait(SECOND)


def test_a_read_whose_answer_cannot_be_used_fails_the_run() -> None:
    for exchange in UNREADABLE:
        assert move(exchange, workflow=reading()) == failed("response.invalid")
    for exchange in TOO_LARGE:
        assert move(exchange, workflow=reading()) == failed("response.too-large")


@pytest.mark.parametrize("exchange", RETRYABLE, ids=str)
def test_a_mutation_that_may_come_again_does_so_but_where_no_key_protects(exchange: Exchange) -> None:
    assert move(exchange, recovery="same-command") == Wait(FIRST)
    assert move(exchange, recovery="same-command-and-receipt") == Wait(FIRST)
    assert move(exchange, recovery="hold-after-dispatch") == Doubt(None)


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_a_mutation_that_was_not_sent_is_sent_again(recovery: Recovery) -> None:
    assert move(NotConnected(), recovery=recovery) == Wait(FIRST)


@pytest.mark.parametrize("exchange", [Unanswered(), *FAILED_THERE, *UNREADABLE, *TOO_LARGE[:1]], ids=str)
def test_a_mutation_that_may_have_been_taken_is_in_doubt(exchange: Exchange) -> None:
    assert move(exchange, recovery="same-command") == Doubt(FIRST)
    assert move(exchange, recovery="same-command-and-receipt") == Doubt(FIRST)
    assert move(exchange, recovery="hold-after-dispatch") == Doubt(None)


@pytest.mark.parametrize("exchange", [*RETRYABLE, NotConnected()], ids=str)
def test_doubt_stays_where_the_next_sending_comes_to_nothing(exchange: Exchange) -> None:
    assert move(exchange, "unanswered", recovery="same-command") == Doubt(SECOND)
    assert move(exchange, "unanswered", "receipt-missing", recovery="same-command-and-receipt") == Wait(NOW + 4_000)


def test_what_a_person_had_sent_again_and_could_not_be_sent_is_tried_again() -> None:
    options: dict[str, Any] = {"recovery": "hold-after-dispatch", "repeat_accepted": True}
    assert move(NotConnected(), "unanswered", **options) == Doubt(SECOND)
    assert move(Answered(503), "unanswered", **options) == Doubt(None)


def test_it_is_not_tried_again_before_the_receiver_wants_it() -> None:
    assert move(Answered(429, retry_after=90_000)) == Wait(NOW + 90_000)
    assert move(Answered(503, retry_after=90_000), "unanswered") == Doubt(NOW + 90_000)


def test_nothing_is_due_after_the_deadline() -> None:
    late = DEADLINE - 1_000
    assert move(NotConnected(), now=late) == Wait(DEADLINE)
    assert move(NotConnected(), now=DEADLINE + 5) == Wait(DEADLINE)
    assert move(Unanswered(), now=late - 1) == Doubt(DEADLINE - 1)
    assert move(Unanswered(), now=late) == Doubt(None)


@pytest.mark.parametrize(
    ("exchange", "expected", "told"),
    [
        (Answered(200, b'{"a": 1}'), Advance("decide", StepResult(200, '{"a":1}', NOW)), "receipt-found"),
        (Answered(200), Advance("decide", StepResult(200, None, NOW)), "receipt-found"),
        (Answered(404), Wait(NOW), "receipt-missing"),
        (Answered(410), Doubt(None), "receipt-expired"),
        (Answered(200, b"{"), Doubt(SECOND), "receipt-unavailable"),
        (Answered(202, b"{}"), Doubt(SECOND), "receipt-unavailable"),
        (Answered(302), Doubt(SECOND), "receipt-unavailable"),
        (Answered(403), Doubt(SECOND), "receipt-unavailable"),
        (Answered(429, retry_after=60_000), Doubt(NOW + 60_000), "receipt-unavailable"),
        (Answered(500), Doubt(SECOND), "receipt-unavailable"),
        (TooLarge(200), Doubt(SECOND), "receipt-unavailable"),
        (Encoded(200), Doubt(SECOND), "receipt-unavailable"),
        (NotConnected(), Doubt(SECOND), "receipt-unavailable"),
        (Unanswered(), Doubt(SECOND), "receipt-unavailable"),
    ],
    ids=str,
)
def test_a_receipt_decides_what_becomes_of_a_command_in_doubt(
    exchange: Exchange, expected: Move, told: AttemptResult
) -> None:
    made = judged(exchange, "unanswered", recovery="same-command-and-receipt", kind="receipt")
    assert made == (expected, AttemptEnd(result=told, http_status=getattr(exchange, "status", None)))


def test_the_schema_of_the_connection_holds_for_every_success() -> None:
    strict = registry("same-command-and-receipt", responseSchema={"type": "object", "required": ["id"]})
    assert result(Answered(200, b'{"id": 1}'), connection=strict) == "completed"
    for body in (b"{}", b"[]", b""):
        assert result(Answered(200, body), connection=strict) == "unreadable"
        assert result(Answered(200, body), connection=strict, kind="receipt") == "receipt-unavailable"
    lenient = registry(responseSchema={"type": ["object", "null"]})
    assert result(Answered(204), connection=lenient) == "completed"


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b'{"a":1,"a":2}',
        b"NaN",
        b"9007199254740992",
        b"1e400",
        b'"\\ud800"',
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000,
        b"\xef\xbb\xbf{}",
        b" ",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_what_is_no_strict_json_that_can_be_held_is_unreadable(body: bytes) -> None:
    assert result(Answered(200, body)) == "unreadable"


def test_an_answer_within_the_bounds_is_kept_exactly() -> None:
    value = {"\u00e9": [2**53 - 1, 0.1, "\x7f"], "deep": orjson.loads(b"[" * 63 + b"]" * 63)}
    kept = move(Answered(200, orjson.dumps(value)))
    assert isinstance(kept, Advance)
    assert kept.result is not None
    assert kept.result.body is not None
    assert orjson.loads(kept.result.body) == value
    longest = b'"%s"' % (b"x" * (MAX_RESULT_BYTES - 2))
    assert result(Answered(200, longest)) == "completed"
