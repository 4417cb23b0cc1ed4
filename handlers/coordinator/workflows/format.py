"""The members of a workflow file and their forms, as a JSON Schema; what they mean together is checked elsewhere.

A workflow is one object:

- `id`, `version`: text. Events and operators name the workflow by its id; id and version stand for one definition.
- `deadlineSeconds`: how long after its admission a run may take.
- `input`: the JSON Schema (2020-12) of a run's input.
- `triggers`: by name, the events that start a run: `source`, `type` and `dataschema`, to which the event's members of
  these names are equal, and `input`, a mapping over `event` that makes the run's input.
- `start`: the name of the first step.
- `outcomes`: by name, the JSON Schema of the output that comes with it.
- `steps`: by name, and `type` says which of four:
  - `wait-until`: `until` gives the time to wait for, an RFC 3339 text or a timestamp; then `next`.
  - `call`: asks the service of a configured `connection`: `method`, `path` (a template, its `{names}` given by
    `parameters`), `query` (each value text, a number or a boolean; null leaves it out) and a JSON `body`; then `next`.
  - `choose`: the first of `cases` whose `when` is true leads to its `next`; where none is, `else` names the step.
  - `finish`: ends the run with an `outcome` and its `output`.

What a mapping is, mapping.py says. Over a step's mappings stand `input`; `run` with `id`, `admittedAt` and
`deadlineAt` (RFC 3339 texts); and `steps`, which has for each `call` that was made `status`, `body` (null where it is
not JSON) and `endedAt`, and for each `wait-until` that is over `endedAt`. Only what every way to a step has set can be
read there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jsonschema_rs import Draft202012Validator

from handlers.coordinator.workflows.cel_source import Scope
from handlers.coordinator.workflows.members import MAX_ENTRIES, closed, faults_of, named
from handlers.coordinator.workflows.path_template import MAX_TEMPLATE, PATH_TEMPLATE
from handlers.gateway.yaml_reader import Fault

# The longest run: ten years.
MAX_DEADLINE_SECONDS: Final = 315_360_000
MAX_STEPS: Final = 200

# What stands over a trigger's mapping: the envelope of an event.
EVENT_SCOPE: Final[Scope] = {
    "event": dict.fromkeys(("causation", "data", "dataschema", "id", "source", "subject", "time", "type"))
}
RUN_MEMBERS: Final[Scope] = {"admittedAt": None, "deadlineAt": None, "id": None}
RESULT_MEMBERS: Final[Mapping[str, Scope]] = {
    "call": {"body": None, "endedAt": None, "status": None},
    "wait-until": {"endedAt": None},
}

_PLAIN_NAME: Final = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
# As the path parameters of the operations have it, without what an address cannot carry or would be resolved away.
_PATH_NAME: Final = r"^(?:(?:[^\p{C}.]|\.[^\p{C}.]|\.\.[^\p{C}])[^\p{C}]*)?$"
_VISIBLE: Final = r"^[!-~](?:[ -~]*[!-~])?$"

_NAME: Final = {"type": "string", "pattern": _PLAIN_NAME}
_EXPRESSION: Final = {"type": "string"}
_HEADER_TEXT: Final = {"type": "string", "pattern": _VISIBLE, "maxLength": 2048}

_STEPS: Final[dict[str, Any]] = {
    "wait-until": closed({"type": {}, "until": _EXPRESSION, "next": _NAME}),
    "call": closed(
        {
            "type": {},
            "connection": _NAME,
            "method": {"enum": ["GET", "POST", "PUT", "PATCH", "DELETE"]},
            "path": {"type": "string", "pattern": PATH_TEMPLATE, "maxLength": MAX_TEMPLATE},
            "next": _NAME,
        },
        {
            "parameters": named({}, _EXPRESSION),
            "query": named({"minLength": 1, "maxLength": 128}, {"type": ["string", "number", "boolean", "null"]}),
            "body": {},
        },
    ),
    "choose": closed(
        {
            "type": {},
            "cases": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_ENTRIES,
                "items": closed({"when": _EXPRESSION, "next": _NAME}),
            },
            "else": _NAME,
        }
    ),
    "finish": closed({"type": {}, "outcome": _NAME, "output": {}}),
}


def _step() -> dict[str, Any]:
    choices = [
        {"if": {"required": ["type"], "properties": {"type": {"const": name}}}, "then": step}
        for name, step in _STEPS.items()
    ]
    return {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": list(_STEPS)}},
        "allOf": choices,
    }


_TRIGGER: Final = closed({"source": _HEADER_TEXT, "type": _HEADER_TEXT, "dataschema": _HEADER_TEXT, "input": {}})
_PATH_ID: Final = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": _PATH_NAME}
_VALIDATOR: Final = Draft202012Validator(
    closed(
        {
            "id": _PATH_ID,
            "version": _PATH_ID,
            "deadlineSeconds": {"type": "integer", "minimum": 1, "maximum": MAX_DEADLINE_SECONDS},
            "input": {"type": ["object", "boolean"]},
            "triggers": named(_PATH_ID, _TRIGGER),
            "start": _NAME,
            "steps": named(_NAME, _step(), MAX_STEPS),
            "outcomes": named(_NAME, {"type": ["object", "boolean"]}),
        }
    )
)
_PATTERNS: Final[Mapping[str, str]] = {
    _PLAIN_NAME: "must be a letter and at most 63 more letters, digits, hyphens or underscores",
    _PATH_NAME: "must be without control characters, and not '.' or '..'",
    _VISIBLE: "must be visible ASCII, as an event's headers are, with spaces only inside",
    PATH_TEMPLATE: "must begin with a slash and have only characters of a path, %XX and {names}",
}


def check_format(definition: Any) -> list[Fault]:
    """Return what is wrong with the members of a workflow: missing, unknown, of another type or beyond a bound."""
    return faults_of(_VALIDATOR, definition, _PATTERNS)
