"""Where a run goes from where it is: a pure function of its definition, its record, the connections and the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson
from jsonschema_rs import Draft202012Validator

from handlers.coordinator.execution.command import RequestInvalidError, make_command
from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.workflows.expression import MappingError
from handlers.coordinator.workflows.values import UnfitValueError, canonical_text
from handlers.coordinator.workflows.workflow import Call, Choose, Finish, Step, WaitUntil, Workflow
from handlers.gateway.times import epoch_milliseconds, rfc3339
from storage.execution.doubt import in_doubt
from storage.execution.records import (
    MOST_TRIES,
    Advance,
    AttemptKind,
    Command,
    Doubt,
    End,
    FailureCode,
    Move,
    Position,
    StepResult,
    StepType,
    Wait,
)

# How often it is looked whether a command in doubt can be recovered again that its connection or definition holds up.
LOOK_AGAIN_MILLISECONDS: Final = 60_000

_TYPES: Final[Mapping[type[Step], StepType]] = {
    WaitUntil: "wait-until",
    Call: "call",
    Choose: "choose",
    Finish: "finish",
}


@dataclass(frozen=True, slots=True)
class Settle:
    """The step comes to this without anyone being asked; `step_type` is None where the definition is not known."""

    step_type: StepType | None
    move: Move


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The command of a call, or the request of its receipt, is to be sent."""

    kind: AttemptKind
    command: Command


Decision: TypeAlias = Settle | Dispatch


def decide(
    workflow: Workflow | None, position: Position, connections: Mapping[str, Connection], bound: bool, now: int
) -> Decision:
    """Say what is next for a run in epoch milliseconds `now`.

    `workflow` is None where its definition cannot be read; `bound` tells whether the connections are configured as
    they were when the run was admitted.
    """
    step = None if workflow is None else workflow.steps[position.step]
    kind = None if step is None else _TYPES[type(step)]
    doubt = in_doubt(position.command, position.attempts)
    if now >= position.deadline_at and not (doubt and position.repeat_accepted):
        return Settle(kind, Doubt(None) if doubt else failed("deadline.passed"))
    if workflow is None or step is None:
        return Settle(None, _blocked(position, doubt, now))
    if position.tries > MOST_TRIES:
        return Settle(kind, Doubt(None))
    try:
        if isinstance(step, Call):
            return _call(workflow, step, position, connections.get(step.connection) if bound else None, now)
        return Settle(kind, _move(workflow, step, position, now))
    except MappingError:
        return Settle(kind, failed("mapping.failed"))


def failed(code: FailureCode) -> End:
    """Return the end of a run that fails for a reason of the closed list."""
    return End(state="failed", outcome=None, output=None, failure_code=code)


def activation(workflow: Workflow, position: Position) -> dict[str, Any]:
    """Return what stands over the mappings of the present step: `input`, `run` and `steps`, as format.py has them."""
    return {
        "input": orjson.loads(position.input),
        "run": {
            "id": position.run_id,
            "admittedAt": rfc3339(position.admitted_at),
            "deadlineAt": rfc3339(position.deadline_at),
        },
        "steps": _Results(workflow, position.results),
    }


class _Results(dict[str, Any]):
    """What mappings see of completed steps, by name; each is read when it is asked for, as they may be many and long.

    A mapping names the step that it reads: nothing goes through them.
    """

    def __init__(self, workflow: Workflow, results: Mapping[str, StepResult]) -> None:
        super().__init__()
        self._workflow = workflow
        self._results = results

    def __contains__(self, name: object) -> bool:
        return name in self._results

    def __missing__(self, name: str) -> dict[str, Any]:
        self[name] = _result(self._workflow.steps[name], self._results[name])
        found: dict[str, Any] = self[name]
        return found


def _result(step: Step, result: StepResult) -> dict[str, Any]:
    ended = {"endedAt": rfc3339(result.ended_at)}
    if not isinstance(step, Call):
        return ended
    return {"status": result.status, "body": None if result.body is None else orjson.loads(result.body), **ended}


def _blocked(position: Position, doubt: bool, now: int) -> Move:
    """Wait until things are as they were; a command in doubt stays so, and may go on without a new start too."""
    if doubt:
        return Doubt(min(now + LOOK_AGAIN_MILLISECONDS, position.deadline_at))
    return Wait(position.deadline_at, blocked=True)


def _call(
    workflow: Workflow, call: Call, position: Position, connection: Connection | None, now: int
) -> Settle | Dispatch:
    doubt = in_doubt(position.command, position.attempts)
    # A run that was admitted before connections said what they permit is bound to one that permits nothing.
    if connection is None or not connection.permits(call.method, call.path):
        return Settle("call", _blocked(position, doubt, now))
    try:
        command = position.command or make_command(
            f"{position.run_id}.{position.step}", call, connection, activation(workflow, position)
        )
    except RequestInvalidError:
        return Settle("call", failed("request.invalid"))
    if position.repeat_accepted:
        return Dispatch("send", command)
    if doubt:
        return _recovery(command, position)
    # A store that was restored may not know of a command that was sent, and here no key protects the receiver.
    if position.restore_review_required and command.recovery == "hold-after-dispatch":
        return Settle("call", Doubt(None))
    return Dispatch("send", command)


def _recovery(command: Command, position: Position) -> Settle | Dispatch:
    """Say how a command in doubt is recovered without a person, as far as it can be."""
    if command.recovery == "same-command":
        return Dispatch("send", command)
    if command.recovery == "same-command-and-receipt" and position.attempts[-1].result != "receipt-expired":
        return Dispatch("receipt", command)
    return Settle("call", Doubt(None))


def _move(workflow: Workflow, step: WaitUntil | Choose | Finish, position: Position, now: int) -> Move:
    variables = activation(workflow, position)
    if isinstance(step, WaitUntil):
        return _wait(step, variables, position, now)
    if isinstance(step, Choose):
        return _choose(step, variables)
    return _finish(step, workflow.outcomes[step.outcome], variables)


def _wait(step: WaitUntil, variables: Mapping[str, Any], position: Position, now: int) -> Move:
    until = step.until.evaluate(variables)
    due = epoch_milliseconds(until) if isinstance(until, str) else None
    if due is None:
        return failed("wait.invalid")
    if due <= now:
        return Advance(step.next, StepResult(status=None, body=None, ended_at=now))
    return Wait(min(due, position.deadline_at))


def _choose(step: Choose, variables: Mapping[str, Any]) -> Move:
    for case in step.cases:
        found = case.when.evaluate(variables)
        if not isinstance(found, bool):
            return failed("mapping.failed")
        if found:
            return Advance(case.next, None)
    return Advance(step.otherwise, None)


def _finish(step: Finish, schema: Draft202012Validator, variables: Mapping[str, Any]) -> Move:
    output = step.output.evaluate(variables)
    try:
        text = canonical_text(output)
    except UnfitValueError:
        return failed("output.invalid")
    if not schema.is_valid(output):
        return failed("output.invalid")
    return End(state="completed", outcome=step.outcome, output=text, failure_code=None)
