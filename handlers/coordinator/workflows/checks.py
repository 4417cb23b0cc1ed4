"""Everything that must hold of a workflow's definition, looked at in one go so that every fault is told."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Names
from typing import Any, Final, NamedTuple

from handlers.coordinator.workflows.cel_source import Scope
from handlers.coordinator.workflows.format import EVENT_SCOPE, check_format
from handlers.coordinator.workflows.graph import check_graph, objects
from handlers.coordinator.workflows.mapping import Mapping, RefusedMappingError, compile_mapping
from handlers.coordinator.workflows.path_template import PARAMETER, has_dot_segments
from handlers.coordinator.workflows.schema import check_schema
from handlers.gateway.yaml_reader import Fault, Path

# The members of a step that are mappings, by the step's type; those of a choice are in its cases.
_MAPPINGS: Final[Names[str, tuple[str, ...]]] = {
    "call": ("parameters", "query", "body"),
    "finish": ("output",),
    "wait-until": ("until",),
}
_WITHOUT_BODY: Final = frozenset({"DELETE", "GET"})


class Checked(NamedTuple):
    """The faults of a definition, and its compiled mappings by where they stand."""

    faults: list[Fault]
    mappings: Names[Path, Mapping]


def check_definition(definition: Any) -> Checked:
    """Look for every fault in the JSON of a workflow's file, and compile its mappings on the way."""
    faults = check_format(definition)
    if not isinstance(definition, dict):
        return Checked(faults, {})
    graph = check_graph(definition)
    mappings, unusable = _compiled(_mappings(definition, graph.scopes))
    faults += [*graph.faults, *_schema_faults(definition), *_outcome_faults(definition), *_call_faults(definition)]
    return Checked(faults + unusable, mappings)


def _mappings(definition: Names[str, Any], scopes: Names[str, Scope]) -> Iterator[tuple[Path, Any, Scope]]:
    for name, trigger in objects(definition, "triggers").items():
        if "input" in trigger:
            yield ("triggers", name, "input"), trigger["input"], EVENT_SCOPE
    for name, step in objects(definition, "steps").items():
        for member in _MAPPINGS.get(_text(step.get("type")), ()):
            if member in step:
                yield ("steps", name, member), step[member], scopes[name]
        cases = step.get("cases") if step.get("type") == "choose" else None
        for index, case in enumerate(cases if isinstance(cases, list) else ()):
            if isinstance(case, dict) and "when" in case:
                yield ("steps", name, "cases", index, "when"), case["when"], scopes[name]


def _compiled(nodes: Iterator[tuple[Path, Any, Scope]]) -> tuple[dict[Path, Mapping], list[Fault]]:
    mappings: dict[Path, Mapping] = {}
    faults: list[Fault] = []
    for path, node, scope in nodes:
        try:
            mappings[path] = compile_mapping(node, scope)
        except RefusedMappingError as error:
            faults += (Fault((*path, *fault.path), fault.message, fault.offset) for fault in error.faults)
    return mappings, faults


def _schema_faults(definition: Names[str, Any]) -> Iterator[Fault]:
    schemas: dict[Path, Any] = {("outcomes", name): each for name, each in objects(definition, "outcomes").items()}
    if isinstance(definition.get("input"), dict):
        schemas["input",] = definition["input"]
    for path, schema in schemas.items():
        yield from (fault._replace(path=(*path, *fault.path)) for fault in check_schema(schema))


def _outcome_faults(definition: Names[str, Any]) -> Iterator[Fault]:
    named = definition.get("outcomes")
    outcomes = named if isinstance(named, dict) else {}
    used: set[str] = set()
    for name, step in objects(definition, "steps").items():
        outcome = step.get("outcome") if step.get("type") == "finish" else None
        if isinstance(outcome, str):
            used.add(outcome)
            if outcome not in outcomes:
                yield Fault(("steps", name, "outcome"), f"the outcome {outcome} is not declared")
    yield from (Fault(("outcomes", name), "no step finishes so", key=True) for name in outcomes if name not in used)


def _call_faults(definition: Names[str, Any]) -> Iterator[Fault]:
    for name, step in objects(definition, "steps").items():
        if step.get("type") == "call":
            yield from _faults_of_call(("steps", name), step)


def _faults_of_call(path: Path, step: Names[str, Any]) -> Iterator[Fault]:
    if "body" in step and _text(step.get("method")) in _WITHOUT_BODY:
        yield Fault((*path, "body"), f"a {step['method']} has no body", key=True)
    template = _text(step.get("path"))
    if has_dot_segments(template):
        yield Fault((*path, "path"), "must be without the segments '.' and '..'")
    given = step.get("parameters", {})
    asked = dict.fromkeys(PARAMETER.findall(template))
    if not isinstance(given, dict):
        return
    yield from (Fault((*path, "path"), f"the parameter {name} is not given") for name in asked if name not in given)
    surplus = [name for name in given if name not in asked]
    yield from (Fault((*path, "parameters", name), "the path has no such parameter", key=True) for name in surplus)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
