"""The tag events: what a node reports of its steps, and the log lines that it leaves."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from msgspec import UNSET

from generated.join import models
from generated.join.operations import get_join_log as log_op
from generated.join.operations import report_join_events as report_op
from handlers.gateway.bodies import LISTED_FINDINGS
from handlers.gateway.times import epoch_milliseconds_of_each, now_milliseconds, rfc3339
from handlers.join.app import App
from handlers.join.standing import NO_JOIN, standing
from storage.join.events import LogLine, LogLines, Report, StepEvent
from storage.join.refusals import Refusal, Refused

REFUSED_EVENTS: Final = "Not every event is one that this join can take; nothing was recorded."
UNKNOWN_STEP: Final = "is not a step of the join's plan"
BAD_TIME: Final = "is not a time of the years 1 to 9999"
KEY_REUSED: Final = "The key stands for another report already."
STEP_ORDER: Final = "A step cannot come to that status from the one that it has; nothing was recorded."
NOT_IN_TURN: Final = "The join's turn has not come yet."
ENDED: Final = "The join has ended."


class Batch(NamedTuple):
    """The events of a report, as storage takes them, and what is wrong with some of them."""

    steps: Sequence[StepEvent]
    lines: LogLines
    errors: Sequence[models.FieldError]


async def report_join_events(app: App, request: report_op.Request) -> report_op.Response:
    """Record a report of the join in its turn, all of it or nothing; raft changes follow after the answer."""
    identity = await app.identities.find(request.principal.join_id)
    if identity is None:
        raise report_op.NotFound(NO_JOIN)
    batch = read_events(request.body.events, identity.plan, now_milliseconds())
    if batch.errors:
        raise report_op.InvalidInput(REFUSED_EVENTS, errors=list(batch.errors))
    outcome = await app.storage.join.events.report(_report(request, batch))
    if outcome is None:
        raise report_op.NotFound(NO_JOIN)
    if isinstance(outcome, Refused):
        raise _refusal(outcome)
    if outcome.rafts_changed:
        app.turns.wake()
    return report_op.NoContent()


async def get_join_log(app: App, request: log_op.Request) -> log_op.Response:
    """Give lines of a join's log that come after one that the caller has."""
    log = await app.storage.join.events.log(request.join_id, after=request.after, limit=request.limit)
    if log is None:
        raise log_op.NotFound(NO_JOIN)
    lines = [
        models.LogLine(seq=line.seq, at=rfc3339(line.at), step=line.step, message=line.message) for line in log.lines
    ]
    return log_op.Ok(body=models.JoinLog(lines=lines, dropped=log.dropped))


def read_events(events: Sequence[models.JoinEvent], plan: Collection[str], arrived_at: int) -> Batch:
    """Return the steps and the lines of a report, each in its order; of faults at most LISTED_FINDINGS are listed.

    What has no time happened at `arrived_at`, in epoch milliseconds. The document sees to it that a step has its `step`
    and `status`, and a log line its `message`.
    """
    steps: list[StepEvent] = []
    lines: list[LogLine] = []
    errors: list[models.FieldError] = []
    times = iter(epoch_milliseconds_of_each([event.at for event in events if event.at is not UNSET]))
    for index, event in enumerate(events):
        step = None if event.step is UNSET else event.step
        if step is not None and step not in plan:
            errors.append(models.FieldError(field_=f"events[{index}].step", message=UNKNOWN_STEP))
        at = arrived_at if event.at is UNSET else next(times)
        if at is None:
            errors.append(models.FieldError(field_=f"events[{index}].at", message=BAD_TIME))
        elif event.type == "log":
            lines.append((at, step, event.message or ""))
        elif step is not None and event.status is not UNSET:
            steps.append(StepEvent(step, event.status, None if event.message is UNSET else event.message, at))
    return Batch(steps, LogLines.of(lines), errors[:LISTED_FINDINGS])


def _report(request: report_op.Request, batch: Batch) -> Report:
    key = None if request.idempotency_key is UNSET else request.idempotency_key
    return Report(
        join_id=request.principal.join_id,
        steps=batch.steps,
        lines=batch.lines,
        key=key,
        digest="" if key is None else hashlib.sha256(request.raw_body).hexdigest(),
    )


def _refusal(refused: Refused) -> report_op.Problems:
    if refused.why is Refusal.KEY_REUSED:
        return report_op.IdempotencyKeyReused(KEY_REUSED)
    if refused.why is Refusal.STEP_ORDER:
        return report_op.JoinStepOrder(STEP_ORDER)
    if refused.why is Refusal.NOT_IN_TURN:
        return report_op.JoinNotInTurn(NOT_IN_TURN, details=standing(refused))
    return report_op.JoinEnded(ENDED, details=standing(refused))
