"""Join in the test's own process: its two listeners over a real database, without sockets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any, Final

import httpx
from starlette.types import Receive, Scope, Send

from handlers.gateway.listener import Listener
from handlers.gateway.telemetry import Metrics, RequestLog
from handlers.join.api import join_api
from handlers.join.app import App
from handlers.join.certificates import Authority
from handlers.join.identities import Identities
from handlers.join.rafts.ledger import LedgerRaft
from handlers.join.turns import Turns
from storage.database import Storage
from tests.support.contract import ListenerName
from tests.support.nodes import Key, request_of
from tools.authority import new_key

TOKEN: Final = "operators"
OPERATOR: Final = {"Authorization": f"Bearer {TOKEN}"}
REGISTRATIONS: Final = "/v1/join/registrations"
RAFT: Final = "raft:control"

Answer = httpx.Response


class CountedTurns(Turns):
    """The keeper, which nobody runs here; it counts how often it is woken."""

    woken = 0

    def wake(self) -> None:
        """Count."""
        self.woken += 1


class House:
    """What a server has of join, and whoever asks it."""

    def __init__(self, storage: Storage, authority: Authority) -> None:
        rafts = [LedgerRaft(storage.join.ledger, "control", 2380, "https")]
        self.turns = CountedTurns(storage.join, rafts, timeout_seconds=600)
        self.app = App(
            storage=storage,
            authority=authority,
            rafts=rafts,
            turns=self.turns,
            identities=Identities(storage.join.registrations.identity),
            trusted_proxies=[ip_network("192.0.2.7/32")],
        )
        api = join_api(self.app, TOKEN)
        self._listeners = {name: Listener(name, [api], {}, Metrics(), RequestLog()) for name in ("control", "join")}

    async def send(
        self,
        listener: ListenerName,
        method: str,
        target: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        certificate: str = "",
    ) -> Answer:
        """Send a request, on a connection with a client certificate in PEM or without one."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            tls = {"client_cert_chain": [certificate] if certificate else []}
            scope["extensions"] = {"tls": tls}
            await self._listeners[listener](scope, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://join.test") as client:
            return await client.request(method, target, headers=dict(headers), content=content)

    async def operate(self, method: str, target: str, value: object = None) -> Answer:
        """Ask as the operator; None sends no body."""
        fields, content = _body(value)
        return await self.send("control", method, target, OPERATOR | fields, content)

    async def mint(self, **order: Any) -> str:
        """Return a new token."""
        answer = await self.operate("POST", "/v1/join/tokens", order)
        assert answer.status_code == 201, answer.text
        token: str = answer.json()["token"]
        return token

    async def register(self, token: str, value: object) -> Answer:
        """Register by a token, with any value for a body."""
        fields, content = _body(value)
        return await self.send("join", "POST", REGISTRATIONS, fields | {"Authorization": f"Bearer {token}"}, content)

    async def approve(self, join_id: str, **asked: str) -> Answer:
        """Approve as the operator."""
        return await self.operate("POST", f"{REGISTRATIONS}/{join_id}/approve", asked or None)

    async def reject(self, join_id: str, reason: str = "for a test") -> Answer:
        """Reject as the operator."""
        return await self.operate("POST", f"{REGISTRATIONS}/{join_id}/reject", {"reason": reason})

    async def registration(self, join_id: str) -> dict[str, Any]:
        """Return a join as the operator sees it."""
        found: dict[str, Any] = (await self.operate("GET", f"{REGISTRATIONS}/{join_id}")).json()
        return found

    async def log(self, join_id: str, query: str = "") -> dict[str, Any]:
        """Return a join's log as the operator sees it."""
        found: dict[str, Any] = (await self.operate("GET", f"{REGISTRATIONS}/{join_id}/log{query}")).json()
        return found


class Node:
    """A registered node."""

    def __init__(self, house: House, key: Key, name: str, told: Mapping[str, Any]) -> None:
        self.house = house
        self.key = key
        self.name = name
        self.join_id: str = told["joinId"]
        self.certificate: str = told["certificate"]
        self.path = f"{REGISTRATIONS}/{self.join_id}"

    @classmethod
    async def registered(cls, house: House, name: str = "node-1", **changes: Any) -> Node:
        """Register with a token of its own."""
        key = new_key()
        answer = await house.register(await house.mint(), newcomer(key, name, **changes))
        assert answer.status_code == 201, answer.text
        return cls(house, key, name, answer.json())

    @classmethod
    async def joining(cls, house: House, name: str = "node-1") -> Node:
        """Register, and be approved where nobody else has the turn."""
        node = await cls.registered(house, name)
        assert (await house.approve(node.join_id)).json()["state"] == "joining"
        return node

    async def send(self, method: str, target: str, value: object = None, **fields: str) -> Answer:
        """Ask with its certificate; an underscore in a field's name stands for a hyphen."""
        told, content = _body(value)
        named = {name.replace("_", "-"): each for name, each in fields.items()}
        return await self.house.send("join", method, target, told | named, content, self.certificate)

    async def report(self, *events: object, **fields: str) -> Answer:
        """Report events."""
        return await self.send("POST", f"{self.path}/events", {"events": events}, **fields)

    async def renew(self, csr: str | None = None) -> Answer:
        """Ask for another certificate."""
        return await self.send("POST", f"{self.path}/certificate", {"csr": csr or request_of(self.key)})


def newcomer(key: Key, name: str = "node-1", **changes: Any) -> dict[str, Any]:
    """Return the body of a registration."""
    return {"name": name, "role": "compute", "address": f"{name}.example", "csr": request_of(key)} | changes


def outcome(answer: Answer) -> tuple[int, str]:
    """Return the status, and the code of a problem."""
    code = answer.json()["code"] if answer.headers.get("Content-Type") == "application/problem+json" else ""
    return answer.status_code, code


def errors(answer: Answer) -> list[tuple[str, str]]:
    """Return where a request was found to be at fault, and why."""
    assert outcome(answer) == (400, "INVALID_INPUT")
    return [(error["field"], error["message"]) for error in answer.json()["errors"]]


def _body(value: object) -> tuple[dict[str, str], bytes | None]:
    return ({}, None) if value is None else ({"Content-Type": "application/json"}, json.dumps(value).encode())
