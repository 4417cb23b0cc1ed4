"""A workflow with each type of step, and where a run of it may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from handlers.coordinator.execution.command import make_command
from handlers.coordinator.execution.connection import Connection, connections
from handlers.coordinator.execution.course import activation
from handlers.coordinator.workflows.workflow import Call, Workflow, compile_workflow
from storage.execution.records import Attempt, AttemptKind, AttemptResult, Command, Position, Recovery
from tests.handlers.coordinator.workflows.building import asking

ADMITTED: Final = 1_767_225_600_000
DEADLINE: Final = ADMITTED + 3_600_000
NOW: Final = ADMITTED + 60_000

RECOVERIES: Final[tuple[Recovery, ...]] = ("same-command", "same-command-and-receipt", "hold-after-dispatch")


def flow(**changes: Any) -> Workflow:
    """Return the workflow of building.asking with other members."""
    return compile_workflow(asking(**changes))


def reading(**changes: Any) -> Workflow:
    """Return the same, but its call is a GET."""
    return flow(**{"steps__ask__method": "GET", "steps__ask__body": ..., **changes})


def registry(recovery: Recovery = "hold-after-dispatch", **members: Any) -> Connection:
    """Return the connection that the workflow calls."""
    settings: dict[str, Any] = {
        "baseUrl": "https://registry.example/api",
        "methods": ["GET", "POST"],
        "paths": ["/cases/{id}/decision"],
        "recovery": recovery,
        **({"receiptPath": "/receipts/{key}"} if recovery == "same-command-and-receipt" else {}),
    }
    return connections({"registry": settings | members})["registry"]


def at(step: str = "ask", **members: Any) -> Position:
    """Return where a run is that has come to a step and has not begun it."""
    known: dict[str, Any] = {
        "run_id": "0196f0c0-0000-7000-8000-000000000001",
        "workflow_id": "case-decision",
        "definition_digest": "sha256:" + "1" * 64,
        "binding_digest": "sha256:" + "2" * 64,
        "input": '{"caseId":"c-1"}',
        "admitted_at": ADMITTED,
        "deadline_at": DEADLINE,
        "step": step,
        "cancel_requested": False,
        "restore_review_required": False,
        "repeat_accepted": False,
        "tries": 1,
        "results": {},
        "command": None,
        "attempts": (),
    }
    return Position(**(known | members))


def command_of(workflow: Workflow, connection: Connection) -> Command:
    """Return the command of the workflow's call."""
    call = workflow.steps["ask"]
    assert isinstance(call, Call)
    return make_command(f"{at().run_id}.ask", call, connection, activation(workflow, at()))


def sent(workflow: Workflow, connection: Connection, *results: AttemptResult, **members: Any) -> Position:
    """Return where a run is whose call was tried, and what came of it each time."""
    return at(command=command_of(workflow, connection), attempts=attempts(results), **members)


def attempts(results: Iterable[AttemptResult]) -> tuple[Attempt, ...]:
    """Return attempts that ended so."""
    return tuple(_attempt(number, result) for number, result in enumerate(results, 1))


def _attempt(number: int, result: AttemptResult) -> Attempt:
    kind: AttemptKind = "receipt" if result.startswith("receipt-") else "send"
    return Attempt(
        number=number,
        kind=kind,
        started_at=ADMITTED + number,
        ended_at=ADMITTED + number + 1,
        result=result,
        http_status=None,
    )
