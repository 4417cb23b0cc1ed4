"""What an answer, or the lack of one, means for the run that asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from handlers.coordinator.execution.back_off import back_off
from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.execution.course import failed
from handlers.coordinator.execution.exchange import Answered, Encoded, Exchange, NotConnected, TooLarge, Unanswered
from handlers.coordinator.workflows.values import LargeTextError, UnfitValueError, canonical_text, plain
from handlers.coordinator.workflows.workflow import Call, Workflow
from handlers.gateway import strict_json
from storage.execution.doubt import in_doubt, leaves_doubt
from storage.execution.records import (
    Advance,
    AttemptEnd,
    AttemptKind,
    AttemptResult,
    Command,
    Doubt,
    FailureCode,
    Move,
    Position,
    StepResult,
    Wait,
)

# The longest result that a step may leave, as canonical JSON.
MAX_RESULT_BYTES: Final = 262_144

_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_FINAL: Final[dict[AttemptResult, FailureCode]] = {"refused": "call.refused", "redirected": "call.redirected"}
# Of a read alone: a mutation that was answered so may have been accepted.
_FINAL_OF_READ: Final[dict[AttemptResult, FailureCode]] = {
    "too-large": "response.too-large",
    "unreadable": "response.invalid",
}


class _Reading(NamedTuple):
    """How an attempt ended; `body` is the canonical JSON of a success, None where that had no body."""

    result: AttemptResult
    body: str | None = None


def judge(
    exchange: Exchange,
    *,
    position: Position,
    command: Command,
    connection: Connection,
    kind: AttemptKind,
    workflow: Workflow,
    now: int,
    jitter: Callable[[], float],
) -> tuple[Move, AttemptEnd]:
    """Return where the run goes from here, and how the attempt ended.

    `position` is that before the attempt, `now` the epoch milliseconds after it, and `jitter` gives 0 to 1.
    """
    due = now + back_off(
        len(position.attempts), exchange.retry_after if isinstance(exchange, Answered) else None, jitter
    )
    reading = _read_receipt(exchange, connection) if kind == "receipt" else _read_answer(exchange, connection)
    status = None if isinstance(exchange, NotConnected | Unanswered) else exchange.status
    if reading.result in {"completed", "receipt-found"}:
        step = workflow.steps[position.step]
        assert isinstance(step, Call)  # noqa: S101 - no other step sends a command
        move: Move = Advance(step.next, StepResult(status, reading.body, now))
    elif kind == "receipt":
        move = _without_receipt(reading.result, position, now, due)
    else:
        move = _not_completed(reading.result, position, command, due)
    return move, AttemptEnd(result=reading.result, http_status=status)


def _read_answer(exchange: Exchange, connection: Connection) -> _Reading:
    """Return what the answer to a command says."""
    match exchange:
        case NotConnected():
            return _Reading("not-connected")
        case Unanswered():
            return _Reading("unanswered")
        case TooLarge():
            return _Reading("too-large")
        case Encoded():
            return _Reading("unreadable")
        case Answered(status=status) if 200 <= status < 300:
            return _success(exchange.body, connection)
        case Answered(status=status) if 300 <= status < 400:
            return _Reading("redirected")
        case Answered(status=status) if status in _RETRYABLE:
            return _Reading("retryable")
        case Answered(status=status):
            return _Reading("refused" if 400 <= status < 500 else "failed-there")


def _read_receipt(exchange: Exchange, connection: Connection) -> _Reading:
    """Return what the answer to the request of a receipt says; one that cannot be used is `receipt-unavailable`."""
    match exchange:
        case Answered(status=200) if (reading := _success(exchange.body, connection)).result == "completed":
            return _Reading("receipt-found", reading.body)
        case Answered(status=404):
            return _Reading("receipt-missing")
        case Answered(status=410):
            return _Reading("receipt-expired")
        case _:
            return _Reading("receipt-unavailable")


def _success(body: bytes, connection: Connection) -> _Reading:
    """Read the JSON of a success; where there is none, the connection's schema has to take null."""
    try:
        value = plain(strict_json.loads(body)) if body else None
        text = canonical_text(value, MAX_RESULT_BYTES)
    except LargeTextError:
        return _Reading("too-large")
    except (strict_json.NotStrictJson, UnfitValueError):
        return _Reading("unreadable")
    schema = connection.response_schema
    if schema is not None and not schema.is_valid(value):
        return _Reading("unreadable")
    return _Reading("completed", text if body else None)


def _without_receipt(result: AttemptResult, position: Position, now: int, due: int) -> Move:
    if result == "receipt-missing":
        return Wait(now)
    return Doubt(None) if result == "receipt-expired" else _doubt(position, due)


def _not_completed(result: AttemptResult, position: Position, command: Command, due: int) -> Move:
    if result in _FINAL:
        return failed(_FINAL[result])
    if command.method == "GET" and result in _FINAL_OF_READ:
        return failed(_FINAL_OF_READ[result])
    if not (leaves_doubt(command, result) or in_doubt(command, position.attempts)):
        return Wait(min(due, position.deadline_at))
    # What was not sent may be sent again all the same: where a command in doubt was, a person has asked for it.
    if command.recovery == "hold-after-dispatch" and result != "not-connected":
        return Doubt(None)
    return _doubt(position, due)


def _doubt(position: Position, due: int) -> Doubt:
    """Recover at `due`, but not from the deadline on: then a person has to."""
    return Doubt(due if due < position.deadline_at else None)
