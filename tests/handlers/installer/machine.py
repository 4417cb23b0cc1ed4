"""A machine's installer in the test's own process: its listener over a real database, without sockets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import httpx

from handlers.gateway.listener import Listener
from handlers.gateway.telemetry import Metrics, RequestLog
from handlers.installer.api import installer_api
from handlers.installer.app import App
from handlers.installer.feed import Feed
from handlers.installer.job import Job
from handlers.installer.node_yaml import node_yaml
from storage.database import Storage

CODE: Final = "7F3K-M2QX"
CONFIG_PATH: Final = "/v1/installer/config"
INSTALL: Final = "/v1/installer/install"
EVENTS: Final = "/v1/installer/install/events"
PLAN: Final = "steps: [{name: one, run: ['true'], timeoutSeconds: 9}, {name: two, run: ['true'], timeoutSeconds: 9}]"

CONFIG: Final[dict[str, Any]] = {
    "role": "founder",
    "hostname": "node-1.example",
    "mgmt": {"address": "192.0.2.11/24", "gateway": "192.0.2.1"},
    "links": [{"interface": "enp3s0"}, {"interface": "enp4s0"}],
    "disks": [{"device": "/dev/sda", "confirm": "/dev/sda"}],
    "network": {"floatingIpCidrs": ["198.51.100.0/24", "2001:db8:7::/64"]},
}

NODE_YAML: Final = """\
# The node in rack 4.
role: founder   # the first
hostname: node-1.example
mgmt:
  address: 192.0.2.11/24
  gateway: 192.0.2.1
links:
- interface: enp3s0
disks:
  - {device: /dev/sda, confirm: "/dev/sda"}
"""

Answer = httpx.Response


class Machine:
    """What a server has of the installer, and an operator who knows the code; attempts begin, but nobody runs them."""

    def __init__(self, storage: Storage, folder: Path) -> None:
        plan = folder / "install-plan.yaml"
        plan.write_text(PLAN)
        feed = Feed(storage.installer.events)
        job = Job(storage.installer, feed, folder=folder, plan=plan, node_yaml=node_yaml)
        self.app = App(storage=storage.installer, job=job, feed=feed)
        api = installer_api(self.app, CODE)
        self._listener = Listener("installer", [api], {}, Metrics(), RequestLog())

    async def ask(
        self,
        method: str,
        target: str,
        *headers: tuple[str, str | bytes],
        content: bytes | None = None,
        code: str | None = CODE,
    ) -> Answer:
        """Send a request with the code; None sends none."""
        authorization = [] if code is None else [("Authorization", code)]
        fields = [("Host", "machine.test"), *authorization, *headers]
        given = [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in fields]
        transport = httpx.ASGITransport(self._listener)
        async with httpx.AsyncClient(transport=transport, base_url="https://machine.test") as client:
            client.headers.clear()
            return await client.request(method, target, headers=given, content=content)

    async def put(self, value: object, media_type: str = "application/json") -> Answer:
        """Put a config: bytes and text as they are, anything else as JSON."""
        text = value if isinstance(value, str | bytes) else json.dumps(value)
        content = text.encode() if isinstance(text, str) else text
        return await self.ask("PUT", CONFIG_PATH, ("Content-Type", media_type), content=content)

    async def put_yaml(self, text: str | bytes) -> Answer:
        """Put a node.yaml."""
        return await self.put(text, "application/yaml")


def outcome(answer: Answer) -> tuple[int, str]:
    """Return the status, and the code of a problem."""
    code = answer.json()["code"] if answer.headers.get("Content-Type") == "application/problem+json" else ""
    return answer.status_code, code


def errors(answer: Answer) -> list[tuple[str, str]]:
    """Return where a config was found to be at fault, and why."""
    assert outcome(answer) == (400, "INVALID_CONFIG"), answer.text
    return [(error["field"], error["message"]) for error in answer.json()["errors"]]
