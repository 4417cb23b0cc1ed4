"""The members of a scenario file and their forms, as a JSON Schema; what they mean together scenario.py checks.

A scenario is one object in a file of its own, in the folder `scenarios` of a package:

- `name`: what is shown, as a sentence.
- `workflow`: the id of the workflow; it may be left out where the package has only one.
- `input`, the run's input, or `event`, from which the trigger makes it: `trigger`, and `data` or any other member of
  the envelope; what is left out is filled in from the trigger.
- `at`: when the run is admitted (RFC 3339), by default 2026-01-05T09:00:00Z. The clock is a virtual one: it
  stands still but for what is waited for, and each back-off is as long as it can be.
- `connections`: by name, what is assumed of a connection: `recovery`, `timeoutSeconds`, `maxResponseBytes` and
  `responseSchema` as in gatehouse.yaml, and with its defaults. What the workflow calls is permitted.
- `replies`: by call step, the answers to what it sends, in order: `status` with a JSON `body` or a `text`, and
  `retryAfter` (seconds); or `fault`: `timeout`, `refused-connection`, `cut-off` or `too-large`. `afterSeconds` is how
  long an answer takes. With `always` it is given to every further request.
- `receipts`: by call step, the answers to the questions after its receipt, of the same form.
- `acts`: what an operator does, `afterSeconds` from the admission: `cancel`, or `retry-same`, which may
  `acceptRepeat`.
- `expect`: what has to come of it; what is not named is not compared. `path` (the steps in the order in which they
  were reached), `state`, `outcome`, `output`, `failureCode`, `elapsedSeconds` (until the run ends, or until it waits
  for a person), `calls` (all that was sent, each with any of `step`, `method`, `path`, `query`, `body`, `receipt`), or
  `refused`: the code with which admission refuses the event or the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from jsonschema_rs import Draft202012Validator

from handlers.coordinator.workflows.members import MAX_ENTRIES, closed, faults_of, named
from handlers.gateway.yaml_reader import Fault
from storage.execution.records import Recovery
from storage.runs import RunState

FAULTS: Final = ("timeout", "refused-connection", "cut-off", "too-large")
ACTS: Final = ("cancel", "retry-same")
REFUSALS: Final = ("event.invalid", "event.too-large", "input.invalid")
# Ten years, as for a workflow's deadline.
_MAX_SECONDS: Final = 315_360_000

_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]"
_PATTERNS: Final[Mapping[str, str]] = {_TIME: "must be an RFC 3339 time, as 2026-01-05T09:00:00Z"}
_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 256}
_SECONDS: Final = {"type": "number", "minimum": 0, "maximum": _MAX_SECONDS}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": MAX_ENTRIES}


_REPLY: Final = closed(
    {},
    {
        "status": {"type": "integer", "minimum": 200, "maximum": 599},
        "body": {},
        "text": {"type": "string"},
        "retryAfter": _SECONDS,
        "fault": {"enum": list(FAULTS)},
        "afterSeconds": _SECONDS,
        "always": {"type": "boolean"},
    },
)
_EVENT: Final = closed(
    {"trigger": _TEXT},
    {
        "id": _TEXT,
        "source": _TEXT,
        "type": _TEXT,
        "dataschema": _TEXT,
        "time": {"type": "string", "pattern": _TIME},
        "subject": {"type": "object"},
        "causation": {"type": "object"},
        "data": {},
    },
)
_CONNECTION: Final = closed(
    {},
    {
        "recovery": {"enum": list(get_args(Recovery))},
        "timeoutSeconds": {"type": "number", "minimum": 0.1, "maximum": 300},
        "maxResponseBytes": {"type": "integer", "minimum": 1, "maximum": 1_048_576},
        "responseSchema": {"type": ["object", "boolean"]},
    },
)
_ACT: Final = closed({"act": {"enum": list(ACTS)}, "afterSeconds": _SECONDS}, {"acceptRepeat": {"type": "boolean"}})
_CALL: Final = closed(
    {},
    {
        "step": _TEXT,
        "method": {"type": "string"},
        "path": {"type": "string"},
        "query": {"type": "string"},
        "body": {},
        "receipt": {"type": "boolean"},
    },
)
_EXPECT: Final = closed(
    {},
    {
        "path": {"type": "array", "items": _TEXT},
        "state": {"enum": list(get_args(RunState))},
        "outcome": {"type": ["string", "null"]},
        "output": {},
        "failureCode": {"type": ["string", "null"]},
        "elapsedSeconds": _SECONDS,
        "calls": {"type": "array", "items": _CALL},
        "refused": {"enum": list(REFUSALS)},
    },
)
_VALIDATOR: Final = Draft202012Validator(
    closed(
        {"name": _TEXT, "expect": _EXPECT},
        {
            "workflow": _TEXT,
            "input": {},
            "event": _EVENT,
            "at": {"type": "string", "pattern": _TIME},
            "connections": named({}, _CONNECTION),
            "replies": named({}, _list(_REPLY)),
            "receipts": named({}, _list(_REPLY)),
            "acts": _list(_ACT),
        },
    )
)


def check_format(scenario: Any) -> list[Fault]:
    """Return what is wrong with the members of a scenario: missing, unknown, of another type or beyond a bound."""
    return faults_of(_VALIDATOR, scenario, _PATTERNS)
