from __future__ import annotations

from pathlib import Path

import pytest

from generated.join.operations import OPERATIONS
from generated.join.security import Authenticators
from handlers.gateway.faults import Fault
from handlers.join.api import FAULTS, join_document
from tests.handlers.join.house import OPERATOR, REGISTRATIONS, House, Node, outcome
from tests.support.contract import ListenerName, document, places
from tests.support.nodes import client_cert

LISTENERS: tuple[ListenerName, ...] = ("control", "join")
AUTHORED = Path(__file__).parents[3] / "generated/join/contract.json"


def test_the_document_is_served_as_it_was_authored() -> None:
    assert join_document() == AUTHORED.read_bytes()


def test_each_fault_of_the_gateway_has_a_code_of_the_document() -> None:
    assert FAULTS.keys() == set(Fault)
    assert {code for codes in FAULTS.values() for code in codes} <= document("join")["x-problems"].keys()


def test_each_security_scheme_has_an_authenticator() -> None:
    schemes = {scheme.field for operation in OPERATIONS for scheme in operation.schemes}
    assert schemes == set(Authenticators.__dataclass_fields__)
    assert len(schemes) == len(document("join")["components"]["securitySchemes"])


@pytest.mark.anyio
async def test_every_operation_is_on_its_listeners_and_on_no_other(house: House) -> None:
    for place in places("join").values():
        path = place.path.replace("{", "").replace("}", "")
        here = {
            listener
            for listener in LISTENERS
            if outcome(await house.send(listener, "PATCH", path, {})) == (405, "METHOD_NOT_ALLOWED")
        }
        # Of a path with several operations, each listener may have another one.
        assert here >= set(place.content["x-listeners"])
    assert outcome(await house.send("join", "POST", "/v1/join/tokens", OPERATOR)) == (404, "NOT_FOUND")
    assert outcome(await house.send("control", "POST", f"{REGISTRATIONS}/x/events", OPERATOR)) == (404, "NOT_FOUND")


@pytest.mark.anyio
async def test_each_credential_counts_on_its_own_listener_alone(house: House) -> None:
    node = await Node.registered(house)
    bearer = {"Authorization": f"Bearer {await house.mint()}"}
    assert outcome(await house.send("control", "GET", node.path, {}, certificate=node.certificate))[0] == 401
    assert outcome(await house.send("control", "GET", node.path, bearer))[0] == 401
    assert outcome(await house.send("join", "GET", node.path, OPERATOR))[0] == 404
    assert outcome(await house.send("join", "GET", node.path, bearer))[0] == 404
    assert outcome(await house.send("join", "POST", REGISTRATIONS, OPERATOR))[0] == 401
    assert (await house.send("join", "GET", node.path, {}, certificate=node.certificate)).status_code == 200


@pytest.mark.anyio
async def test_a_header_that_no_trusted_proxy_sent_is_no_certificate(house: House) -> None:
    node = await Node.registered(house)
    assert outcome(await house.send("join", "GET", node.path, client_cert(node.certificate)))[0] == 404
