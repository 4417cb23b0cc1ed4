"""The scenarios of a package: read from its folder `scenarios`, and held to the workflows that they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from handlers.coordinator.scenarios.format import check_format
from handlers.coordinator.workflows.files import Finding, findings_of, folder_files, read_file
from handlers.coordinator.workflows.package import Package
from handlers.coordinator.workflows.schema import check_schema
from handlers.coordinator.workflows.workflow import Call, Workflow
from handlers.gateway.times import epoch_milliseconds
from handlers.gateway.yaml_reader import Fault

FOLDER: Final = "scenarios"
MAX_FILES: Final = 1024

_AT: Final = "2026-01-05T09:00:00Z"
_ADMITTED: Final = frozenset(("path", "state", "outcome", "output", "failureCode", "elapsedSeconds", "calls"))

ReplyFault: TypeAlias = Literal["timeout", "refused-connection", "cut-off", "too-large"]


class Reply(NamedTuple):
    """What a service does with a request, or with `always` with each, after `after` milliseconds.

    `status` is None where `fault` says it all; `retry_after` is milliseconds, too.
    """

    status: int | None
    body: bytes
    retry_after: int | None
    fault: ReplyFault | None
    after: int
    always: bool


class Act(NamedTuple):
    """What an operator does, `after` milliseconds from the admission."""

    act: Literal["cancel", "retry-same"]
    after: int
    accept_repeat: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario, ready to be carried out; `at` is epoch milliseconds.

    `event` and `input` are as in the file, one of them; `connections`, `replies` and `receipts` are by name, `expect`
    is what has to come of it, as in the file.
    """

    file: str
    name: str
    workflow: Workflow
    event: Mapping[str, Any] | None
    input: Any
    at: int
    connections: Mapping[str, Mapping[str, Any]]
    replies: Mapping[str, tuple[Reply, ...]]
    receipts: Mapping[str, tuple[Reply, ...]]
    acts: tuple[Act, ...]
    expect: Mapping[str, Any]


class Loaded(NamedTuple):
    """The scenarios of a folder by the names of their files, and every fault of these; one or the other is empty."""

    scenarios: list[Scenario]
    findings: list[Finding]


def load(folder: Path, package: Package) -> Loaded:
    """Read all scenarios of the package in a folder; one without any is a finding."""
    where = folder / FOLDER
    try:
        files = folder_files(where) if where.exists() else []
    except OSError as error:
        return Loaded([], [Finding(str(where), 1, 1, f"cannot be read: {error.strerror}")])
    if not 1 <= len(files) <= MAX_FILES:
        told = f"a package has 1 to {MAX_FILES} scenarios here, a file each, and there are {len(files) or 'none'}"
        return Loaded([], [Finding(str(where), 1, 1, told)])
    findings: list[Finding] = []
    scenarios = []
    for file in files:
        document = read_file(file, findings)
        if document is not None:
            faults = _check(document.value, package)
            findings += findings_of(file, document, faults)
            if not faults and not document.problems:
                scenarios.append(_scenario(str(file), document.value, _workflow(document.value, package)))
    return Loaded([] if findings else scenarios, sorted(set(findings)))


def _check(value: Any, package: Package) -> list[Fault]:
    faults = check_format(value)
    if faults:
        return faults
    workflow = package.workflows.get(_workflow_id(value, package))
    if workflow is None:
        known = ", ".join(sorted(package.workflows))
        return [Fault(("workflow",), f"the workflow has to be one of {known}")]
    return [
        *_faults_of_beginning(value, workflow),
        *_faults_of_services(value, workflow),
        *_faults_of_replies(value),
        *_faults_of_expectation(value["expect"], workflow),
    ]


def _workflow_id(value: Mapping[str, Any], package: Package) -> str:
    names = list(package.workflows)
    default = names[0] if len(names) == 1 else ""
    return str(value.get("workflow", default))


def _workflow(value: Mapping[str, Any], package: Package) -> Workflow:
    return package.workflows[_workflow_id(value, package)]


def _faults_of_beginning(value: Mapping[str, Any], workflow: Workflow) -> Iterator[Fault]:
    if ("event" in value) == ("input" in value):
        yield Fault((), "a run begins with one of event and input")
    trigger = value.get("event", {}).get("trigger")
    if trigger is not None and trigger not in workflow.triggers:
        yield Fault(("event", "trigger"), f"the workflow has no trigger {trigger}")
    for path, text in ((("at",), value.get("at")), (("event", "time"), value.get("event", {}).get("time"))):
        if text is not None and epoch_milliseconds(text) is None:
            yield Fault(path, "is no time of RFC 3339")


def _faults_of_services(value: Mapping[str, Any], workflow: Workflow) -> Iterator[Fault]:
    assumed: Mapping[str, Any] = value.get("connections", {})
    for name, connection in assumed.items():
        if name not in workflow.connections:
            yield Fault(("connections", name), "the workflow does not use this connection", key=True)
        if connection.get("recovery") == "read-again" and _has_commands(name, workflow):
            message = "must be another than read-again: the workflow does not only read there"
            yield Fault(("connections", name, "recovery"), message)
        if "responseSchema" in connection:
            place = ("connections", name, "responseSchema")
            yield from (
                fault._replace(path=(*place, *fault.path)) for fault in check_schema(connection["responseSchema"])
            )
    for member in ("replies", "receipts"):
        for name in value.get(member, {}):
            step = workflow.steps.get(name)
            if not isinstance(step, Call):
                yield Fault((member, name), "the workflow has no call of this name", key=True)
            elif member == "receipts" and not _has_receipts(step, assumed):
                message = f"{step.connection} is not assumed to recover by same-command-and-receipt"
                yield Fault((member, name), message, key=True)


def _has_commands(connection: str, workflow: Workflow) -> bool:
    calls = (step for step in workflow.steps.values() if isinstance(step, Call) and step.connection == connection)
    return any(call.method != "GET" for call in calls)


def _has_receipts(step: Call, assumed: Mapping[str, Any]) -> bool:
    recovery = assumed.get(step.connection, {}).get("recovery")
    return step.method != "GET" and recovery == "same-command-and-receipt"


def _faults_of_replies(value: Mapping[str, Any]) -> Iterator[Fault]:
    for member in ("replies", "receipts"):
        for name, replies in value.get(member, {}).items():
            for index, reply in enumerate(replies):
                if message := _fault_of_reply(reply):
                    yield Fault((member, name, index), message)
                if reply.get("always") and index + 1 < len(replies):
                    yield Fault((member, name, index + 1), "none comes after the one that is always given")


def _fault_of_reply(reply: Mapping[str, Any]) -> str | None:
    if ("status" in reply) == ("fault" in reply):
        return "a reply has one of status and fault"
    if "fault" in reply and not reply.keys() <= {"fault", "afterSeconds", "always"}:
        return "a fault comes with nothing but afterSeconds and always"
    if "body" in reply and "text" in reply:
        return "a reply has one of body and text"
    return None


def _faults_of_expectation(expected: Mapping[str, Any], workflow: Workflow) -> Iterator[Fault]:
    if "refused" in expected and not _ADMITTED.isdisjoint(expected):
        yield Fault(("expect", "refused"), "of what is refused nothing else comes", key=True)
    for index, name in enumerate(expected.get("path", ())):
        if name not in workflow.steps:
            yield Fault(("expect", "path", index), f"there is no step {name}")
    for index, call in enumerate(expected.get("calls", ())):
        if "step" in call and not isinstance(workflow.steps.get(call["step"]), Call):
            yield Fault(("expect", "calls", index, "step"), f"there is no call {call['step']}")
    outcome = expected.get("outcome")
    if outcome is not None and outcome not in workflow.outcomes:
        yield Fault(("expect", "outcome"), f"the outcome {outcome} is not declared")


def _scenario(file: str, value: Mapping[str, Any], workflow: Workflow) -> Scenario:
    acts = sorted((_act(act) for act in value.get("acts", ())), key=lambda act: act.after)
    return Scenario(
        file=file,
        name=value["name"],
        workflow=workflow,
        event=value.get("event"),
        input=value.get("input"),
        # A text that is no time was a finding.
        at=epoch_milliseconds(value.get("at", _AT)) or 0,
        connections=value.get("connections", {}),
        replies={name: tuple(map(_reply, replies)) for name, replies in value.get("replies", {}).items()},
        receipts={name: tuple(map(_reply, replies)) for name, replies in value.get("receipts", {}).items()},
        acts=tuple(acts),
        expect=value["expect"],
    )


def _act(act: Mapping[str, Any]) -> Act:
    return Act(act["act"], _milliseconds(act["afterSeconds"]), act.get("acceptRepeat", False))


def _reply(reply: Mapping[str, Any]) -> Reply:
    body = reply["text"].encode() if "text" in reply else orjson.dumps(reply["body"]) if "body" in reply else b""
    return Reply(
        status=reply.get("status"),
        body=body,
        retry_after=_milliseconds(reply["retryAfter"]) if "retryAfter" in reply else None,
        fault=reply.get("fault"),
        after=_milliseconds(reply.get("afterSeconds", 0)),
        always=reply.get("always", False),
    )


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
