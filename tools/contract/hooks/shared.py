"""What the hooks of every API share: where its listeners are, the operator, and what of a case may be changed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

import requests
import schemathesis
from requests import PreparedRequest
from requests.auth import AuthBase
from schemathesis import Case, HookContext
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

from tools.contract.run import LISTENERS_VARIABLE, OPERATOR_VARIABLE

LISTENERS: Final[Mapping[str, str]] = json.loads(os.environ[LISTENERS_VARIABLE])
# What goes beside the cases goes over connections of its own.
BESIDE: Final = requests.Session()
METHODS: Final = frozenset({"get", "put", "post", "delete", "patch"})


class Operator(AuthBase):
    """Sends the operator's token."""

    def __init__(self, token: str) -> None:
        self.header = f"Bearer {token}"

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Put the token into a request."""
        request.headers["Authorization"] = self.header
        return request


# The installer is tried without an operator.
OPERATOR: Final = Operator(os.environ.get(OPERATOR_VARIABLE, ""))


@schemathesis.hook
def before_load_schema(_: HookContext, raw_schema: dict[str, Any]) -> None:
    """Give each listener under test its own paths, operations and schemes, which lead to it.

    The document knows the default ports alone. A path that several listeners have, with other methods on each, becomes
    one of each: those of the second listener have a segment less, which the URL of its server has more.
    """
    homes = _homes(raw_schema)
    paths: dict[str, dict[str, Any]] = {}
    for depth, listener in enumerate(LISTENERS):
        for path, item in raw_schema["paths"].items():
            moved, left = _split(path, depth)
            for method in item.keys() & METHODS:
                if listener in item[method]["x-listeners"]:
                    led = _led(item[method], listener, homes) | {"servers": [{"url": LISTENERS[listener] + moved}]}
                    paths.setdefault(left, {})[method] = led
    raw_schema["paths"] = paths


def _split(path: str, depth: int) -> tuple[str, str]:
    segments = path.split("/")
    return "/".join(segments[: depth + 1]), "/".join(["", *segments[depth + 1 :]])


def _led(operation: dict[str, Any], listener: str, homes: Mapping[str, str]) -> dict[str, Any]:
    """Return what one listener has of an operation; what an earlier one has, too, needs another name."""
    name = operation["operationId"]
    earlier = next(other for other in LISTENERS if other in operation["x-listeners"]) != listener
    security = [scheme for scheme in operation["security"] if all(homes[each] == listener for each in scheme)]
    return {**operation, "operationId": f"{name}@{listener}" if earlier else name, "security": security}


def _homes(raw_schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the listener on which each scheme counts, as the operations of one listener alone tell."""
    operations = [item[method] for item in raw_schema["paths"].values() for method in item.keys() & METHODS]
    return {
        name: operation["x-listeners"][0]
        for operation in operations
        if len(operation["x-listeners"]) == 1
        for scheme in operation["security"]
        for name in scheme
    }


def operation_id(case: Case[Any]) -> str:
    """Return the operation that a case is of, on whichever listener."""
    return str(case.operation.definition.raw.get("operationId", "")).partition("@")[0]


def right(case: Case[Any], location: ParameterLocation) -> bool:
    """Tell whether what a case has at `location` satisfies the document, so that it may be changed."""
    return case.meta is not None and not case.meta.is_negative_at(location)


def phase(case: Case[Any]) -> TestPhase | None:
    """Return the phase that a case is made for."""
    return case.meta.phase.name if case.meta else None


def operate(method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
    """Send a request of the operator's beside the cases, and return the JSON of its answer, if any."""
    answer = BESIDE.request(method, f"{LISTENERS['control']}{path}", json=body, headers=headers, auth=OPERATOR)
    return answer.json() if answer.content else None
