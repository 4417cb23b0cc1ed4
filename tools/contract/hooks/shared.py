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
METHODS: Final = frozenset({"get", "put", "post", "delete", "patch"})


class Operator(AuthBase):
    """Sends the operator's token."""

    def __init__(self, token: str) -> None:
        self.header = f"Bearer {token}"

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Put the token into a request."""
        request.headers["Authorization"] = self.header
        return request


OPERATOR: Final = Operator(os.environ[OPERATOR_VARIABLE])


@schemathesis.hook
def before_load_schema(_: HookContext, raw_schema: dict[str, Any]) -> None:
    """Lead each operation to the server that is tested; the document knows the default ports alone."""
    for item in raw_schema["paths"].values():
        for operation in (item[method] for method in item.keys() & METHODS):
            listener = next(name for name in LISTENERS if name in operation["x-listeners"])
            operation["servers"] = [{"url": LISTENERS[listener]}]


def operation_id(case: Case[Any]) -> str:
    """Return the operation that a case is of."""
    return str(case.operation.definition.raw.get("operationId", ""))


def right(case: Case[Any], location: ParameterLocation) -> bool:
    """Tell whether what a case has at `location` satisfies the document, so that it may be changed."""
    return case.meta is not None and not case.meta.is_negative_at(location)


def phase(case: Case[Any]) -> TestPhase | None:
    """Return the phase that a case is made for."""
    return case.meta.phase.name if case.meta else None


def operate(method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
    """Send a request of the operator's beside the cases, and return the JSON of its answer, if any."""
    answer = requests.request(
        method, f"{LISTENERS['control']}{path}", json=body, headers=headers, auth=OPERATOR, timeout=10
    )
    return answer.json() if answer.content else None
