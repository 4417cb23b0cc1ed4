"""One workflow: its definition held to all rules and compiled, ready to be admitted and carried out."""

from __future__ import annotations

from collections.abc import Mapping as Names
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from jsonschema_rs import Draft202012Validator

from handlers.coordinator.workflows.checks import check_definition
from handlers.coordinator.workflows.digest import digest_of
from handlers.coordinator.workflows.mapping import Mapping, compile_mapping
from handlers.coordinator.workflows.schema import compile_schema
from handlers.gateway.yaml_reader import Fault, Path

NOTHING: Final = compile_mapping({}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """An event that starts a run: its source, type and dataschema are these, `input` maps it to the run's input."""

    source: str
    type: str
    dataschema: str
    input: Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitUntil:
    """Waits for the time that `until` gives (RFC 3339), then goes on to `next`."""

    until: Mapping
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Asks the service of `connection`; `parameters` and `query` give objects, `body` is None where there is none."""

    connection: str
    method: str
    path: str
    parameters: Mapping
    query: Mapping
    body: Mapping | None
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way out of a choice, taken where `when` gives true."""

    when: Mapping
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choose:
    """Goes on to the `next` of the first case that is true, or to `otherwise`."""

    cases: tuple[Case, ...]
    otherwise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Ends the run with an outcome and its output."""

    outcome: str
    output: Mapping


Step: TypeAlias = WaitUntil | Call | Choose | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A compiled workflow. `input` and `outcomes` are validators; `connections` are the names that its calls use.

    `definition` is the JSON of its file and `digest` the `sha256:` digest of that in canonical form.
    """

    id: str
    version: str
    deadline_seconds: int
    input: Draft202012Validator
    triggers: Names[str, Trigger]
    start: str
    steps: Names[str, Step]
    outcomes: Names[str, Draft202012Validator]
    connections: tuple[str, ...]
    definition: Names[str, Any]
    digest: str


class RefusedWorkflowError(Exception):
    """A definition that breaks rules, with all the faults that were found."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


def compile_workflow(definition: Any) -> Workflow:
    """Compile the JSON of a workflow's file; raises RefusedWorkflowError with every fault in it."""
    faults, mappings = check_definition(definition)
    if faults:
        raise RefusedWorkflowError(faults)
    steps = {name: _step(("steps", name), step, mappings) for name, step in definition["steps"].items()}
    return Workflow(
        id=definition["id"],
        version=definition["version"],
        deadline_seconds=definition["deadlineSeconds"],
        input=compile_schema(definition["input"]),
        triggers={name: _trigger(name, trigger, mappings) for name, trigger in definition["triggers"].items()},
        start=definition["start"],
        steps=steps,
        outcomes={name: compile_schema(schema) for name, schema in definition["outcomes"].items()},
        connections=tuple(sorted({step.connection for step in steps.values() if isinstance(step, Call)})),
        definition=definition,
        digest=digest_of(definition),
    )


def _trigger(name: str, trigger: Names[str, Any], mappings: Names[Path, Mapping]) -> Trigger:
    return Trigger(
        source=trigger["source"],
        type=trigger["type"],
        dataschema=trigger["dataschema"],
        input=mappings["triggers", name, "input"],
    )


def _step(path: Path, step: Names[str, Any], mappings: Names[Path, Mapping]) -> Step:
    match step["type"]:
        case "wait-until":
            return WaitUntil(until=mappings[*path, "until"], next=step["next"])
        case "call":
            return Call(
                connection=step["connection"],
                method=step["method"],
                path=step["path"],
                parameters=mappings.get((*path, "parameters"), NOTHING),
                query=mappings.get((*path, "query"), NOTHING),
                body=mappings.get((*path, "body")),
                next=step["next"],
            )
        case "choose":
            cases = (
                Case(when=mappings[*path, "cases", index, "when"], next=case["next"])
                for index, case in enumerate(step["cases"])
            )
            return Choose(cases=tuple(cases), otherwise=step["else"])
        case _:
            return Finish(outcome=step["outcome"], output=mappings[*path, "output"])
