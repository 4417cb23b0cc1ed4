"""What schemathesis has to know of the installer beyond its document: the code, rules across members, ended streams.

Of a case only what is right in it is changed: what was made wrong stays as it is.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

import schemathesis
import yaml
from requests import PreparedRequest
from requests.auth import AuthBase
from schemathesis import Case, HookContext, Response, SerializationContext
from schemathesis.auths import GLOBAL_AUTH_STORAGE
from schemathesis.core.parameters import ParameterLocation

from handlers.installer.meaning import faults_of_meaning
from tools.contract.hooks.shared import BESIDE, LISTENERS, METHODS, operation_id, right
from tools.contract.run import AUTHORITY_VARIABLE, CODE_VARIABLE

AUTHORITY: Final = os.environ[AUTHORITY_VARIABLE]
CONFIG: Final = "/v1/installer/config"
INSTALL: Final = "/v1/installer/install"
STREAM: Final = "text/event-stream"
PATIENCE_SECONDS: Final = 10

_MANAGEMENT: Final = {"address": "192.0.2.11/24", "gateway": "192.0.2.1"}
_NODE: Final = {
    "role": "founder",
    "hostname": "node-1",
    "mgmt": _MANAGEMENT,
    "links": [{"interface": "enp3s0"}],
    "disks": [{"device": "/dev/sda", "confirm": "/dev/sda"}],
}


class Holder(AuthBase):
    """Sends the install code."""

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Put the code into a request."""
        request.headers["Authorization"] = os.environ[CODE_VARIABLE]
        return request


class Quoting(yaml.SafeDumper):
    """Puts text in quotes: without them some is not the same to every reader."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


Quoting.add_representer(str, _quoted)


# Of several names of one syntax schemathesis takes the first that it knows.
@schemathesis.serializer("text/yaml", "application/yaml")
def write_yaml(_: SerializationContext, value: Any) -> bytes:
    """Write a body as YAML."""
    return value if isinstance(value, bytes) else yaml.dump(value, Dumper=Quoting).encode()


HOLDER: Final = Holder()
GLOBAL_AUTH_STORAGE.set_from_requests(HOLDER)


@schemathesis.hook
def before_load_schema(_: HookContext, raw_schema: dict[str, Any]) -> None:
    """Say what the events of a stream are in the words that schemathesis knows, instead of that it is text."""
    settle()
    for item in raw_schema["paths"].values():
        for method in item.keys() & METHODS:
            for response in item[method]["responses"].values():
                media = response.get("content", {}).get(STREAM)
                if media is not None:
                    data = {"contentMediaType": "application/json", "contentSchema": media["x-item-schema"]}
                    media["schema"] = {"type": "object", "required": ["data", "id"], "properties": {"data": data}}


@schemathesis.hook
def before_call(_: HookContext, case: Case[Any], __: dict[str, Any]) -> None:
    """Mend of a configuration what is beyond its schema."""
    if operation_id(case) == "putConfig" and isinstance(case.body, dict) and right(case, ParameterLocation.BODY):
        case.body = _config(case.body)


@schemathesis.hook
def after_call(_: HookContext, case: Case[Any], __: Response) -> None:
    """Let no attempt run while others are tried: so streams end, and a case goes as it went before."""
    if operation_id(case) == "startInstall":
        settle()


def settle() -> None:
    """Wait until no attempt runs, and make one where there is none."""
    end = time.monotonic() + PATIENCE_SECONDS
    while (install := _ask("GET", INSTALL))["state"] in {"idle", "running"}:
        if install["state"] == "idle":
            _ask("PUT", CONFIG, _NODE)
            _ask("POST", INSTALL)
        elif time.monotonic() > end:
            raise TimeoutError("the attempt does not end")
        time.sleep(0.01)


def _ask(method: str, path: str, body: object = None) -> Any:
    answer = BESIDE.request(method, f"{LISTENERS['installer']}{path}", json=body, auth=HOLDER, verify=AUTHORITY)
    answer.raise_for_status()
    return answer.json()


def _config(body: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without what only its members together make wrong."""
    links = {link["interface"]: link for link in body["links"]}
    devices = dict.fromkeys(disk["device"] for disk in body["disks"])
    changed = {
        **body,
        "links": list(links.values()),
        "disks": [{"device": device, "confirm": device} for device in devices],
    }
    if "floatingIpCidrs" in body.get("network", {}):
        count = len(body["network"]["floatingIpCidrs"])
        changed["network"] = {"floatingIpCidrs": [f"198.18.{number}.0/24" for number in range(count)]}
    if any(faults_of_meaning(changed)):
        changed["mgmt"] = _MANAGEMENT
    return changed
