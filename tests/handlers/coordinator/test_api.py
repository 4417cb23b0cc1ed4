from __future__ import annotations

from pathlib import Path

from generated.coordinator.operations import OPERATIONS
from generated.coordinator.security import Authenticators
from handlers.coordinator.api import FAULTS, coordinator_document
from handlers.gateway.faults import Fault
from tests.support.contract import document, places
from tests.support.gatehouse import Gatehouse

AUTHORED = Path(__file__).parents[3] / "generated/coordinator/contract.json"


def test_the_document_is_served_as_it_was_authored(server: Gatehouse) -> None:
    assert coordinator_document() == AUTHORED.read_bytes()
    answer = server.send("GET", "/openapi/coordinator.json")
    assert answer.status == 200
    assert answer.body == AUTHORED.read_bytes()


def test_every_operation_of_the_document_is_on_the_listener(server: Gatehouse) -> None:
    assert {operation.id for operation in OPERATIONS} == places().keys()
    for place in places().values():
        path = place.path.replace("{", "").replace("}", "")
        assert server.send("PATCH", path).outcome == (405, "request.method-not-allowed")


def test_each_fault_of_the_gateway_has_a_code_of_the_document() -> None:
    assert FAULTS.keys() == set(Fault)
    assert {code for codes in FAULTS.values() for code in codes} <= document()["x-problems"].keys()


def test_each_security_scheme_has_an_authenticator() -> None:
    schemes = {scheme.field for operation in OPERATIONS for scheme in operation.schemes}
    assert schemes == set(Authenticators.__dataclass_fields__)
    assert len(schemes) == len(document()["components"]["securitySchemes"])


def test_what_no_operation_has_is_answered_in_the_shape_of_the_document(server: Gatehouse) -> None:
    for path in ("/", "/v1", "/v1/runs/", "/v1/events/case-follow-up/case-created/", "/health/live", "/V1/runs"):
        assert server.send("GET", path).outcome == (404, "request.not-found"), path
