from __future__ import annotations

import json
from typing import Any

import pytest

from tools.contract import house
from tools.contract.document import PROBLEM, Reply, own

COORDINATOR = own("coordinator")
IDENTITY = "4bf92f3577b34da6a3ce929d0e0e4736"
KNOWN = COORDINATOR.content["x-problems"]["authentication.refused"]


def refused(status: int = 401, fields: dict[str, str] | None = None, **members: Any) -> Reply:
    """The refusal of an operator's request; `fields` and `members` replace what it has, "" takes a field away."""
    named = {"content-type": PROBLEM, "x-request-id": IDENTITY, "www-authenticate": house.REALMS["control"]}
    problem = {
        "code": "authentication.refused",
        "detail": "The token is not the operator's.",
        "status": 401,
        "title": KNOWN["title"],
        "traceId": IDENTITY,
        "type": KNOWN["type"],
    }
    given = [(name, value) for name, value in (named | (fields or {})).items() if value]
    return Reply(status, given, json.dumps(problem | members).encode())


def faults(reply: Reply, method: str = "GET", template: str | None = "/v1/runs") -> list[str]:
    return house.faults(COORDINATOR, "control", method, template, reply)


def test_a_problem_that_is_its_code_s_has_no_fault() -> None:
    assert faults(refused()) == []


@pytest.mark.parametrize(
    "reply",
    [
        refused(status=403),
        refused(fields={"x-request-id": ""}),
        refused(fields={"x-request-id": "0"}),
        refused(fields={"www-authenticate": ""}),
        refused(fields={"www-authenticate": "Basic"}),
        refused(fields={"retry-after": "5"}),
        refused(code="none.such"),
        refused(title="Another"),
        refused(detail=""),
        refused(errors=[]),
        refused(more=1),
        refused()._replace(body=b"{"),
    ],
)
def test_a_problem_that_is_not_its_code_s_is_found(reply: Reply) -> None:
    assert faults(reply) != []


def test_the_methods_of_a_listener_decide_between_404_and_405() -> None:
    assert house.carried(own("join"), "join", "/v1/join/registrations") == {"POST"}
    assert house.carried(own("join"), "control", "/v1/join/registrations") == {"GET", "HEAD"}
    good = Reply(405, [("x-request-id", IDENTITY), ("allow", "GET, HEAD, POST")], b"")
    assert faults(good, "DELETE") == []
    assert faults(good, "GET") != []
    assert faults(good._replace(fields=good.fields[:1]), "DELETE") != []
    assert faults(good._replace(status=200), "DELETE") != []
    installer = house.faults(own("installer"), "control", "GET", "/v1/installer/config", good._replace(status=200))
    assert installer != []


def test_a_path_belongs_to_one_api_of_each_listener() -> None:
    assert house.api_of("/v1/join/tokens", "control") == "join"
    assert house.api_of("/v1/runs", "control") == "coordinator"
    assert house.api_of("/v1/runs", "installer") == "installer"
