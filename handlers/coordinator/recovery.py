"""The tag runs, where an operator gets one going again: the command once more, or what the receiver tells of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from generated.coordinator.operations import reconcile as reconcile_op
from generated.coordinator.operations import retry_same as retry_op
from handlers.coordinator.app import App
from handlers.coordinator.conflicts import CONFLICT_DETAILS
from handlers.coordinator.execution.connection import binding_digest
from handlers.coordinator.execution.verdict import judge
from handlers.coordinator.runs import NO_RUN, run_model
from handlers.gateway.times import now_milliseconds
from storage.execution.records import Advance, AttemptEnd, AttemptResult
from storage.execution.recovery import UncertainCall
from storage.refusals import Refusal, Refused

RETRY_REFUSALS: Final[Mapping[Refusal, Callable[[str], retry_op.Problems]]] = {
    Refusal.RETRY_REFUSED: retry_op.RetryRefused,
    Refusal.EXECUTION_HELD: retry_op.ExecutionHeld,
    Refusal.DEFINITION_INCOMPATIBLE: retry_op.RunDefinitionIncompatible,
    Refusal.REVIEW_REQUIRED: retry_op.RestoreReviewRequired,
    Refusal.EVALUATION_UNCERTAIN: retry_op.EvaluationUncertain,
    Refusal.MUTATION_UNCERTAIN: retry_op.MutationUncertain,
}

RECONCILE_REFUSALS: Final[Mapping[Refusal, Callable[[str], reconcile_op.Problems]]] = {
    Refusal.RECONCILE_REFUSED: reconcile_op.ReconcileRefused,
    Refusal.EXECUTION_HELD: reconcile_op.ExecutionHeld,
    Refusal.DEFINITION_INCOMPATIBLE: reconcile_op.RunDefinitionIncompatible,
    Refusal.RECONCILE_UNSUPPORTED: reconcile_op.ReconcileUnsupported,
    Refusal.RECONCILE_RACED: reconcile_op.ReconcileRaced,
}

DETAILS: Final[Mapping[Refusal, str]] = {
    Refusal.EXECUTION_HELD: CONFLICT_DETAILS[Refusal.EXECUTION_HELD],
    Refusal.DEFINITION_INCOMPATIBLE: "No stored package has the run's definition, or this version cannot read it.",
    Refusal.RETRY_REFUSED: "The run is neither uncertain nor waiting at a call, or its end was asked for.",
    Refusal.REVIEW_REQUIRED: "A restore may have lost a call of this run; acceptRepeat says that it may be made again.",
    Refusal.EVALUATION_UNCERTAIN: (
        "Evaluating the step brought the executor down again and again; acceptRepeat says that it may be tried anew."
    ),
    Refusal.MUTATION_UNCERTAIN: (
        "The connection does not protect a repeat; acceptRepeat says that the call may take effect twice."
    ),
    Refusal.RECONCILE_REFUSED: (
        "The run is not uncertain about a command that was sent; one that waits at a call is taken up by retry-same."
    ),
    Refusal.RECONCILE_UNSUPPORTED: "The connection, as it is configured now, gives no receipts for this run.",
    Refusal.RECONCILE_RACED: "Something else moved the run while the receiver was asked.",
}

# What a receiver tells that has no receipt to give.
TOLD: Final[Mapping[AttemptResult, Callable[[], reconcile_op.Problems]]] = {
    "receipt-missing": lambda: reconcile_op.ReconcileRefused(
        "The called system has no receipt of this command; retry-same sends it again."
    ),
    "receipt-expired": lambda: reconcile_op.ReceiptExpired("The called system no longer has the receipt."),
    "receipt-unavailable": lambda: reconcile_op.MutationUncertain("The called system gave no usable receipt."),
}


async def retry_same(app: App, request: retry_op.Request) -> retry_op.Response:
    """Take up at once a run that is uncertain, or that waits at a call, with the command that it has."""
    run = await app.storage.runs.get(request.run)
    if run is None:
        raise retry_op.RunNotVisible(NO_RUN)
    outcome = await app.storage.execution.recoveries.retry_same(
        run.run_id,
        reason=request.body.reason,
        accept_repeat=request.body.accept_repeat,
        readable=await app.definitions.workflow(run.definition_digest) is not None,
    )
    if outcome is None:
        raise retry_op.RunNotVisible(NO_RUN)
    if isinstance(outcome, Refused):
        raise RETRY_REFUSALS[outcome.why](DETAILS[outcome.why])
    return retry_op.Ok(body=run_model(outcome))


async def reconcile(app: App, request: reconcile_op.Request) -> reconcile_op.Response:
    """Ask the receiver once for the receipt of an uncertain run's command; a receipt is the call's result."""
    recoveries = app.storage.execution.recoveries
    call = await recoveries.uncertain_call(request.run)
    if call is None:
        raise reconcile_op.RunNotVisible(NO_RUN)
    if isinstance(call, Refused):
        raise _not_reconciled(call.why)
    receipt = await _receipt(app, call)
    outcome = await recoveries.reconciled(
        call.run.run_id,
        call.mark,
        move=receipt.move,
        attempt=receipt.attempt,
        started_at=receipt.started_at,
        reason=request.body.reason,
    )
    if outcome is None:
        raise reconcile_op.RunNotVisible(NO_RUN)
    if isinstance(outcome, Refused):
        raise _not_reconciled(outcome.why)
    return reconcile_op.Ok(body=run_model(outcome))


class _Receipt(NamedTuple):
    move: Advance
    attempt: AttemptEnd
    started_at: int


async def _receipt(app: App, call: UncertainCall) -> _Receipt:
    """Ask the receiver; raises the problem where it cannot be asked, or has no receipt to give."""
    workflow = await app.definitions.workflow(call.run.definition_digest)
    if workflow is None:
        raise _not_reconciled(Refusal.DEFINITION_INCOMPATIBLE)
    command = call.position.command
    bound = binding_digest(workflow.connections, app.connections) == call.run.binding_digest
    if command is None or command.recovery != "same-command-and-receipt" or not bound:
        raise _not_reconciled(Refusal.RECONCILE_UNSUPPORTED)
    connection = app.connections[command.connection]
    started_at = now_milliseconds()
    exchange = await app.caller.receipt(connection, command)
    move, attempt = judge(
        exchange,
        position=call.position,
        command=command,
        connection=connection,
        kind="receipt",
        workflow=workflow,
        now=now_milliseconds(),
        jitter=random.random,
    )
    if not isinstance(move, Advance):
        raise TOLD[attempt.result]()
    return _Receipt(move, attempt, started_at)


def _not_reconciled(why: Refusal) -> reconcile_op.Problems:
    return RECONCILE_REFUSALS[why](DETAILS[why])
