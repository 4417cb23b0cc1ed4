"""Carries a scenario out with the code that executes, and says what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from handlers.coordinator.execution.carrier import Carrier
from handlers.coordinator.execution.connection import Connection, connections
from handlers.coordinator.scenarios.journal import MemoryJournal, RunRecord
from handlers.coordinator.scenarios.scenario import Scenario
from handlers.coordinator.scenarios.stage import CODES, Clock, Operator, Sent, Services, UnfinishedError
from handlers.coordinator.workflows.active import ActivePackage, TriggerBinding, input_of_event, input_of_start
from handlers.coordinator.workflows.package import Package
from handlers.coordinator.workflows.values import UnfitValueError, canonical_text
from handlers.coordinator.workflows.workflow import Call, Workflow
from handlers.gateway.times import rfc3339
from storage.admission import NewRun
from storage.refusals import Refusal

RUN_ID: Final = "019b8d3f-5e40-7000-8000-000000000000"
EVENT_ID: Final = "019b8d3f-5e3f-7000-8000-000000000000"
# How often a run is taken into hand at most, so that a reply that is always given comes to an end.
MAX_CLAIMS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What came of a scenario; `refused` is the code of admission, without which there is a run.

    `troubles` say, in sentences, what the scenario left open or gave in vain.
    """

    refused: str | None = None
    path: tuple[str, ...] = ()
    state: str | None = None
    outcome: str | None = None
    output: Any = None
    failure_code: str | None = None
    elapsed_seconds: float = 0
    calls: tuple[Sent, ...] = ()
    troubles: tuple[str, ...] = ()


async def carry_out(scenario: Scenario, package: Package) -> Observed:
    """Admit the run, and let the clock go from one thing that is due to the next until nothing is."""
    assumed = _assumed(scenario)
    admitted = _admitted(scenario, package, assumed)
    if isinstance(admitted, Refusal):
        return Observed(refused=CODES[admitted])
    clock = Clock(scenario.at)
    journal = MemoryJournal(RUN_ID, scenario.workflow.id, admitted, clock)
    operator = Operator(scenario.acts, clock, journal)
    services = Services(scenario, clock, operator)

    async def definition(_digest: str) -> Workflow:
        return scenario.workflow

    carrier = Carrier(journal, definition, assumed, services, clock=clock, jitter=_no_jitter)
    try:
        await _carry(carrier, journal, operator)
    except UnfinishedError as error:
        troubles = [*operator.troubles, str(error)]
    else:
        troubles = [*operator.troubles, *services.left_over()]
    return _observed(scenario, journal.run, services.sent, troubles, clock.now)


async def _carry(carrier: Carrier, journal: MemoryJournal, operator: Operator) -> None:
    for _ in range(MAX_CLAIMS):
        due, act = journal.run.due_at, operator.next_at()
        if due is None and act is None:
            return
        if due is None or (act is not None and act <= due):
            operator.until(act or 0)
            continue
        operator.until(due)
        claim = journal.claim()
        while await carrier.stride(claim):
            pass
    message = f"the run was taken up {MAX_CLAIMS:,} times without an end: a retryAfter makes that less often"
    raise UnfinishedError(message)


def _no_jitter() -> float:
    """Let each back-off be as long as it can be, so that a scenario's times are always the same."""
    return 1.0


def _assumed(scenario: Scenario) -> Mapping[str, Connection]:
    """Return connections that permit what the workflow calls, and are otherwise as the scenario has them."""
    calls = [step for step in scenario.workflow.steps.values() if isinstance(step, Call)]
    members: dict[str, dict[str, Any]] = {}
    for name in scenario.workflow.connections:
        own = [call for call in calls if call.connection == name]
        members[name] = {
            "baseUrl": f"https://{name}.invalid",
            "methods": sorted({call.method for call in own}),
            "paths": sorted({call.path for call in own}),
            **scenario.connections.get(name, {}),
        }
        if members[name].get("recovery") == "same-command-and-receipt":
            members[name]["receiptPath"] = "/receipts/{key}"
    return connections(members)


def _admitted(scenario: Scenario, package: Package, assumed: Mapping[str, Connection]) -> NewRun | Refusal:
    active = ActivePackage.load(package.snapshot, assumed)
    binding = active.workflows[scenario.workflow.id]
    if scenario.event is None:
        made = input_of_start(scenario.input, binding)
    else:
        made = _made(
            _envelope(scenario, scenario.event), active.triggers[scenario.workflow.id, scenario.event["trigger"]]
        )
    return made if isinstance(made, Refusal) else binding.new_run(made)


def _made(event: Mapping[str, Any], trigger: TriggerBinding) -> str | Refusal:
    try:
        canonical_text(event)
    except UnfitValueError:
        return Refusal.EVENT_TOO_LARGE
    return input_of_event(event, trigger)


def _envelope(scenario: Scenario, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole envelope of which a scenario has a part."""
    trigger = scenario.workflow.triggers[given["trigger"]]
    event_id = given.get("id", EVENT_ID)
    envelope = {
        "causation": {"hop": 0, "root": event_id},
        "data": {},
        "dataschema": trigger.dataschema,
        "id": event_id,
        "source": trigger.source,
        "subject": {"recordReference": "record-1", "recordRevision": 1},
        "time": rfc3339(scenario.at).replace(".000Z", "Z"),
        "type": trigger.type,
    }
    return envelope | {name: value for name, value in given.items() if name != "trigger"}


def _observed(scenario: Scenario, run: RunRecord, sent: list[Sent], troubles: list[str], now: int) -> Observed:
    elapsed = (now if run.ended_at is None else run.ended_at) - scenario.at
    return Observed(
        path=tuple(run.path),
        state=run.state,
        outcome=run.outcome,
        output=None if run.output is None else orjson.loads(run.output),
        failure_code=run.failure_code,
        elapsed_seconds=elapsed / 1000 if elapsed % 1000 else elapsed // 1000,
        calls=tuple(sent),
        troubles=tuple(troubles),
    )
