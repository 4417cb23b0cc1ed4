"""Join as the gateway serves it: its document, its handlers, its word for each of the gateway's faults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Final

from generated.join.operations import OPERATIONS
from generated.join.security import Authenticators, OperatorToken
from handlers.gateway.bearer import Operator
from handlers.gateway.faults import Api, Fault
from handlers.join.app import App
from handlers.join.client_certificate import ClientCertificates
from handlers.join.join_token import JoinTokens
from handlers.join.plain import PLAIN
from handlers.join.service import service

FAULTS: Final[Mapping[Fault, Sequence[str]]] = {
    Fault.NOT_FOUND: ["NOT_FOUND"],
    Fault.METHOD_NOT_ALLOWED: ["METHOD_NOT_ALLOWED"],
    Fault.MALFORMED: ["INVALID_INPUT"],
    Fault.PARAMETERS: ["INVALID_INPUT"],
    Fault.MEDIA_TYPE: ["UNSUPPORTED_MEDIA_TYPE"],
    Fault.BODY: ["INVALID_INPUT"],
    Fault.TOO_LARGE: ["BODY_TOO_LARGE"],
    Fault.FAILURE: ["INTERNAL"],
    Fault.UNAVAILABLE: ["UNAVAILABLE"],
    Fault.OVERLOADED: ["UNAVAILABLE"],
    Fault.AUDIT_UNAVAILABLE: ["UNAVAILABLE"],
}


def join_document() -> bytes:
    """Return the authored OpenAPI document, as it is served."""
    return files("generated.join").joinpath("contract.json").read_bytes()


def join_api(app: App, operator_token: str) -> Api:
    """Return join for a listener."""
    return Api(
        name="join",
        prefix="/v1/join/",
        contract=json.loads(join_document()),
        operations=OPERATIONS,
        service=service(app),
        authenticators=Authenticators(
            join_token=JoinTokens(app.authority, app.storage.join.tokens.find).authenticate,
            client_certificate=ClientCertificates(app.authority, app.identities, app.trusted_proxies).authenticate,
            operator_token=Operator(operator_token, OperatorToken()).authenticate,
        ),
        schemes={"operatorToken": "control", "joinToken": "join", "clientCertificate": "join"},
        faults=FAULTS,
        shed=("reportJoinEvents",),
        plain={"reportJoinEvents": PLAIN},
    )
