"""What a workflow does, told for a person: its triggers, its steps after those that lead there, its ways to an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

from handlers.coordinator.workflows.workflow import Call, Choose, Finish, Step, WaitUntil, Workflow

# There may be more ways through a workflow than anybody reads.
MAX_WAYS: Final = 20

# What becomes of a call that was sent and not answered.
_RECOVERIES: Final[Mapping[str, str]] = {
    "read-again": "it is read again",
    "same-command": "the same command is sent again",
    "same-command-and-receipt": "its receipt is looked up, and without one the same command is sent again",
    "hold-after-dispatch": "it waits for a person",
}
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


class Way(NamedTuple):
    """Where a step leads, and when; `when` is None where it always does, `else` where no case is true."""

    next: str
    when: str | None = None


def ways_out(step: Step) -> list[Way]:
    """Return where a step leads, in the order in which that is decided."""
    match step:
        case Choose():
            return [*(Way(case.next, str(case.when.source)) for case in step.cases), Way(step.otherwise, "else")]
        case Finish():
            return []
        case _:
            return [Way(step.next)]


def ordered(workflow: Workflow) -> list[str]:
    """Return the names of the steps, each after all that lead to it, and otherwise as the ways are written."""
    missing = dict.fromkeys(workflow.steps, 0)
    for step in workflow.steps.values():
        for way in ways_out(step):
            missing[way.next] += 1
    order, free = [], [workflow.start]
    while free:
        name = free.pop()
        order.append(name)
        for way in reversed(ways_out(workflow.steps[name])):
            missing[way.next] -= 1
            if missing[way.next] == 0:
                free.append(way.next)
    return order


def ways_to(workflow: Workflow, outcome: str) -> Iterator[tuple[str, ...]]:
    """Give the ways from the start to an outcome, as names of steps; there may be very many."""
    leading = _leading_to(workflow, outcome)
    begun: list[tuple[str, ...]] = [(workflow.start,)]
    while begun:
        way = begun.pop()
        step = workflow.steps[way[-1]]
        if isinstance(step, Finish):
            yield way
        targets = dict.fromkeys(each.next for each in ways_out(step) if each.next in leading)
        begun.extend((*way, target) for target in reversed(targets))


def reading(workflow: Workflow, recoveries: Mapping[str, str] | None) -> dict[str, Any]:
    """Return what `told` tells, as JSON; `recoveries` has, by connection, how it recovers, None if no settings say."""
    return {
        "id": workflow.id,
        "version": workflow.version,
        "deadlineSeconds": workflow.deadline_seconds,
        "triggers": workflow.definition["triggers"],
        "input": workflow.definition["input"],
        "steps": [_step(name, workflow, recoveries) for name in ordered(workflow)],
        "outcomes": [_outcome(name, workflow) for name in workflow.outcomes],
    }


def told(read: Mapping[str, Any]) -> list[str]:
    """Return the lines of a reading."""
    limit = _duration(read["deadlineSeconds"])
    lines = [f"{read['id']}, version {read['version']}: a run takes {limit} at most", "", "Begins with"]
    for name, trigger in read["triggers"].items():
        lines.append(f"  {name}: {trigger['type']} of {trigger['source']}, data as in {trigger['dataschema']}")
        lines += _indented(_mapping("input", trigger["input"]), 4)
    lines.append(f"  an operator, with the input {_form(read['input'])}")
    lines += ["", "Steps"]
    for number, step in enumerate(read["steps"], 1):
        lines += _told_step(number, step)
    lines += ["", "Ends"]
    for outcome in read["outcomes"]:
        lines.append(f"  {outcome['outcome']}, with the output {_form(outcome['output'])}")
        lines += [f"    by {', '.join(way)}" for way in outcome["ways"]]
        if outcome["moreWays"]:
            lines.append(f"    and by more ways than these {MAX_WAYS}")
    return lines


def flowchart(workflow: Workflow) -> list[str]:
    """Return the lines of a Mermaid flowchart of a workflow."""
    lines = ["flowchart TD", f"  %% {_shown(workflow.id)}, version {_shown(workflow.version)}"]
    order = ordered(workflow)
    numbers = {name: f"s{number}" for number, name in enumerate(order, 1)}
    lines += [f"  {numbers[name]}{_shape(name, workflow.steps[name])}" for name in order]
    for name in order:
        for way in ways_out(workflow.steps[name]):
            label = f'|"{_shown(way.when)}"|' if way.when else ""
            lines.append(f"  {numbers[name]} -->{label} {numbers[way.next]}")
    return lines


def _leading_to(workflow: Workflow, outcome: str) -> set[str]:
    leading: set[str] = set()
    for name in reversed(ordered(workflow)):
        step = workflow.steps[name]
        ends = isinstance(step, Finish) and step.outcome == outcome
        if ends or any(way.next in leading for way in ways_out(step)):
            leading.add(name)
    return leading


def _step(name: str, workflow: Workflow, recoveries: Mapping[str, str] | None) -> dict[str, Any]:
    step = workflow.steps[name]
    read = {"step": name, **workflow.definition["steps"][name]}
    if isinstance(step, Call):
        configured = None if recoveries is None else step.connection in recoveries
        recovery = None if recoveries is None else recoveries.get(step.connection)
        read |= {"configured": configured, "recovery": "read-again" if step.method == "GET" else recovery}
    return read


def _outcome(name: str, workflow: Workflow) -> dict[str, Any]:
    ways = list(islice(ways_to(workflow, name), MAX_WAYS + 1))
    return {
        "outcome": name,
        "output": workflow.definition["outcomes"][name],
        "ways": ways[:MAX_WAYS],
        "moreWays": len(ways) > MAX_WAYS,
    }


def _told_step(number: int, step: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {number}. {step['step']}: {_doing(step)}"
    for member in ("parameters", "query", "body", "output"):
        if member in step:
            yield from _indented(_mapping(member, step[member]), 5)
    for case in step.get("cases", ()):
        yield f"     {case['next']}, where {_one_line(case['when'])}"
    if "else" in step:
        yield f"     else {step['else']}"
    if step.get("recovery"):
        yield f"     not answered: {_RECOVERIES[step['recovery']]}"
    if step.get("configured") is False:
        yield f"     the settings have no connection {step['connection']}"
    if "next" in step:
        yield f"     then {step['next']}"


def _doing(step: Mapping[str, Any]) -> str:
    match step["type"]:
        case "wait-until":
            return f"waits until {_one_line(step['until'])}"
        case "call":
            return f"sends {step['method']} {step['path']} to {step['connection']}"
        case "choose":
            return "goes on to"
        case _:
            return f"finishes as {step['outcome']}"


def _mapping(name: str, node: Any) -> Iterator[str]:
    """Give each value that a mapping makes, after its place."""
    if isinstance(node, dict) and node:
        for member, below in node.items():
            yield from _mapping(f"{name}.{member}", below)
    elif isinstance(node, list) and node:
        for index, below in enumerate(node):
            yield from _mapping(f"{name}[{index}]", below)
    else:
        yield f"{name} = {_one_line(node) if isinstance(node, str) else _json(node)}"


def _shape(name: str, step: Step) -> str:
    match step:
        case WaitUntil():
            return f'(["{name}: until {_shown(str(step.until.source))}"])'
        case Call():
            return f'["{name}: {step.method} {_shown(step.path)} of {step.connection}"]'
        case Choose():
            return f'{{"{name}"}}'
        case Finish():
            return f'[["{name}: {step.outcome}"]]'


def _shown(text: str) -> str:
    """Write a text as Mermaid takes it within quotes."""
    return _one_line(text).replace("#", "#35;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")


def _indented(lines: Iterator[str], columns: int) -> Iterator[str]:
    return (" " * columns + line for line in lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _form(schema: Any) -> str:
    """Tell the members of an object that a schema describes, or the schema itself where it describes none."""
    members = schema.get("properties") if isinstance(schema, dict) else None
    if not members:
        return _json(schema)
    required = schema.get("required", ())
    return ", ".join(name if name in required else f"{name} (optional)" for name in members)


def _duration(seconds: int) -> str:
    """Return a number of seconds in words, in units that it is made of."""
    parts = []
    for length, unit in _UNITS:
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts)
