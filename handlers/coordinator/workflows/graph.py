"""The ways through a workflow's steps: where they lead, that they end, and what every way to a step has set.

Nothing here asks that the steps are well-formed: what is not is left out, so that all faults can be told at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from handlers.coordinator.workflows.cel_source import Scope
from handlers.coordinator.workflows.format import RESULT_MEMBERS, RUN_MEMBERS
from handlers.gateway.yaml_reader import Fault, Path


class Edge(NamedTuple):
    """One way out of a step; `path` is the member that names the next one."""

    origin: str
    target: str
    path: Path


@dataclass(frozen=True, slots=True)
class Graph:
    """What was found out: `scopes` are, by step, what its expressions may refer to."""

    faults: list[Fault]
    scopes: Mapping[str, Scope]


def objects(definition: Mapping[str, Any], member: str) -> dict[str, dict[str, Any]]:
    """Return those entries of a member of a workflow that are objects, by name; none where there is no such member."""
    entries = definition.get(member)
    return {name: each for name, each in entries.items() if isinstance(each, dict)} if isinstance(entries, dict) else {}


def check_graph(definition: Mapping[str, Any]) -> Graph:
    """Find steps that are named but not there, that nothing leads to, and that lead back; and what is set where.

    Where the ways do not end, or for a step that nothing leads to, every result counts as set: the fault is told once.
    """
    steps = objects(definition, "steps")
    edges = {name: list(_edges(name, step)) for name, step in steps.items()}
    order, backward = _order(definition.get("start"), edges)
    faults = [
        *_missing(definition, edges),
        *(Fault(edge.path, f"leads back to {edge.target}: a workflow comes to an end") for edge in backward),
        *(
            Fault(("steps", name), "nothing leads to this step", key=True)
            for name in steps
            if order and name not in order
        ),
    ]
    if steps and not any(step.get("type") == "finish" for step in steps.values()):
        faults.append(Fault(("steps",), "no step finishes", key=True))
    results = _results(steps, edges, [] if backward else order)
    return Graph(faults, {name: _scope(steps, set_before) for name, set_before in results.items()})


def _missing(definition: Mapping[str, Any], edges: Mapping[str, list[Edge]]) -> Iterator[Fault]:
    named = definition.get("steps")
    known = named if isinstance(named, dict) else {}
    ways = [(edge.path, edge.target) for out in edges.values() for edge in out]
    if isinstance(start := definition.get("start"), str):
        ways.append((("start",), start))
    return (Fault(path, f"there is no step {target}") for path, target in ways if target not in known)


def _scope(steps: Mapping[str, Any], results: frozenset[str]) -> Scope:
    return {
        "input": None,
        "run": RUN_MEMBERS,
        "steps": {name: RESULT_MEMBERS[steps[name]["type"]] for name in results},
    }


def _edges(name: str, step: Mapping[str, Any]) -> Iterator[Edge]:
    for path, holder in _holders(step):
        member = "else" if path == () and step.get("type") == "choose" else "next"
        if isinstance(target := holder.get(member), str):
            yield Edge(name, target, ("steps", name, *path, member))


def _holders(step: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    cases = step.get("cases") if step.get("type") == "choose" else None
    for index, case in enumerate(cases if isinstance(cases, list) else []):
        if isinstance(case, dict):
            yield ("cases", index), case
    yield (), step


def _order(start: Any, edges: Mapping[str, list[Edge]]) -> tuple[list[str], list[Edge]]:
    """Return the steps that can be reached, each after all that lead to it, and the edges that lead back."""
    if not isinstance(start, str) or start not in edges:
        return [], []
    finished: list[str] = []
    entered = {start}
    backward: list[Edge] = []
    on_the_way: list[tuple[str, Iterator[Edge]]] = [(start, iter(edges[start]))]
    while on_the_way:
        name, left = on_the_way[-1]
        edge = next(left, None)
        if edge is None:
            finished.append(name)
            on_the_way.pop()
        elif any(edge.target == above for above, _ in on_the_way):
            backward.append(edge)
        elif edge.target in edges and edge.target not in entered:
            entered.add(edge.target)
            on_the_way.append((edge.target, iter(edges[edge.target])))
    return finished[::-1], backward


def _results(steps: Mapping[str, Any], edges: Mapping[str, list[Edge]], order: list[str]) -> dict[str, frozenset[str]]:
    everything = frozenset(name for name in steps if _gives_result(steps[name]))
    results = dict.fromkeys(steps, everything)
    if order:
        results[order[0]] = frozenset()
    for name in order:
        after = results[name] | {name} if _gives_result(steps[name]) else results[name]
        for edge in edges[name]:
            if edge.target in steps:
                results[edge.target] &= after
    return results


def _gives_result(step: Mapping[str, Any]) -> bool:
    return isinstance(step.get("type"), str) and step["type"] in RESULT_MEMBERS
