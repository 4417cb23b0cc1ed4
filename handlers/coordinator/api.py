"""The coordinator as the gateway serves it: its document, its handlers, its word for each of the gateway's faults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Final

from generated.coordinator.operations import OPERATIONS
from generated.coordinator.security import Authenticators, OperatorToken
from handlers.coordinator.app import App
from handlers.coordinator.service import service
from handlers.coordinator.signature import registry_signature
from handlers.coordinator.sources import Sources
from handlers.gateway.bearer import Operator
from handlers.gateway.faults import Api, Fault

FAULTS: Final[Mapping[Fault, Sequence[str]]] = {
    Fault.NOT_FOUND: ["request.not-found"],
    Fault.METHOD_NOT_ALLOWED: ["request.method-not-allowed"],
    Fault.MALFORMED: ["request.invalid"],
    Fault.PARAMETERS: ["request.invalid"],
    Fault.MEDIA_TYPE: ["request.unsupported-media-type", "request.invalid"],
    Fault.BODY: ["request.invalid"],
    Fault.TOO_LARGE: ["request.body-too-large"],
    Fault.FAILURE: ["runtime.failure"],
    Fault.UNAVAILABLE: ["service.unavailable", "runtime.failure"],
    Fault.OVERLOADED: ["service.unavailable", "runtime.failure"],
    Fault.AUDIT_UNAVAILABLE: ["audit.response-unavailable", "service.unavailable", "runtime.failure"],
}


def coordinator_document() -> bytes:
    """Return the authored OpenAPI document, as it is served."""
    return files("generated.coordinator").joinpath("contract.json").read_bytes()


def coordinator_api(app: App, sources: Sources, operator_token: str) -> Api:
    """Return the coordinator for a listener."""
    return Api(
        name="coordinator",
        prefix="",
        contract=json.loads(coordinator_document()),
        operations=OPERATIONS,
        service=service(app),
        authenticators=Authenticators(
            registry_signature=partial(registry_signature, sources),
            operator_token=Operator(operator_token, OperatorToken()).authenticate,
        ),
        schemes={"registrySignature": "control", "operatorToken": "control"},
        faults=FAULTS,
        shed=("admitEvent",),
    )
