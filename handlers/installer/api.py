"""The installer as the gateway serves it: its document, its handlers, its word for each of the gateway's faults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Final

from generated.installer.operations import OPERATIONS
from generated.installer.security import Authenticators
from handlers.gateway.faults import Api, Fault
from handlers.installer.app import App
from handlers.installer.install_code import InstallCodes
from handlers.installer.meaning import faults_of_meaning
from handlers.installer.node_yaml import NodeYaml
from handlers.installer.service import service

# Whoever installs a machine stands before it: that its storage is at fault is no different from any other fault of it.
FAULTS: Final[Mapping[Fault, Sequence[str]]] = {
    Fault.NOT_FOUND: ["NOT_FOUND"],
    Fault.METHOD_NOT_ALLOWED: ["METHOD_NOT_ALLOWED"],
    Fault.MALFORMED: ["INVALID_REQUEST", "INVALID_CONFIG"],
    Fault.PARAMETERS: ["INVALID_REQUEST"],
    Fault.MEDIA_TYPE: ["UNSUPPORTED_MEDIA_TYPE"],
    Fault.BODY: ["INVALID_CONFIG"],
    Fault.TOO_LARGE: ["BODY_TOO_LARGE"],
    Fault.FAILURE: ["INTERNAL"],
    Fault.UNAVAILABLE: ["INTERNAL"],
    Fault.OVERLOADED: ["INTERNAL"],
    Fault.AUDIT_UNAVAILABLE: ["INTERNAL"],
}


def installer_document() -> bytes:
    """Return the authored OpenAPI document, as it is served."""
    return files("generated.installer").joinpath("contract.json").read_bytes()


def installer_api(app: App, code: str) -> Api:
    """Return the installer for a listener, which lets in whoever gives `code`; raises ValueError for an empty one."""
    contract = json.loads(installer_document())
    return Api(
        name="installer",
        prefix="/v1/installer/",
        contract=contract,
        operations=OPERATIONS,
        service=service(app, NodeYaml(contract)),
        authenticators=Authenticators(install_code=InstallCodes(code, app.storage.lock).authenticate),
        schemes={"installCode": "installer"},
        guard="installCode",
        meanings={"putConfig": faults_of_meaning},
        faults=FAULTS,
    )
