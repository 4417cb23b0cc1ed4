from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from tests.tools.commands.conftest import StandIn
from tools.commands.client import Client
from tools.commands.terminal import RefusedError, UnreachableError

PROBLEM = {
    "code": "run.not-visible",
    "detail": "No run of that id is visible.",
    "status": 404,
    "title": "The run is not visible",
    "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
    "type": "https://id.registrystack.org/problems/registry-coordinator/run/not-visible",
}


def refused(client: Client) -> RefusedError:
    with pytest.raises(RefusedError) as fault:
        client.ask("GET", "/v1/runs/x")
    return fault.value


def test_a_success_gives_its_json_and_the_request_carries_the_token(stand_in: StandIn) -> None:
    stand_in.body = b'{"runs":[]}'
    assert Client(stand_in.url, "token").ask("GET", "/v1/runs", params={"limit": 5}) == {"runs": []}
    assert (stand_in.seen[0].target, stand_in.seen[0].headers["Authorization"]) == ("/v1/runs?limit=5", "Bearer token")


def test_a_problem_is_told_by_code_title_detail_and_trace_id(stand_in: StandIn) -> None:
    stand_in.status, stand_in.body = 404, json.dumps(PROBLEM).encode()
    fault = refused(Client(stand_in.url))
    assert fault.detail.splitlines() == [
        "run.not-visible (404): The run is not visible",
        "  No run of that id is visible.",
        "  trace id 4bf92f3577b34da6a3ce929d0e0e4736",
    ]
    assert fault.body == PROBLEM


def test_a_problem_tells_each_field_that_is_at_fault(stand_in: StandIn) -> None:
    errors = [{"field": "role", "message": "A live join has it."}, {"field": "address", "message": "So here."}]
    stand_in.status, stand_in.body = 409, json.dumps({**PROBLEM, "errors": errors}).encode()
    assert refused(Client(stand_in.url)).detail.splitlines()[2:4] == [
        "  role: A live join has it.",
        "  address: So here.",
    ]


@pytest.mark.parametrize("errors", [1, "role", {"role": 1}, ["role", None, {}], [[]]])
def test_a_problem_of_other_types_is_told_all_the_same(stand_in: StandIn, errors: Any) -> None:
    stand_in.status, stand_in.body = 409, json.dumps({"title": 1, "detail": [], "errors": errors}).encode()
    assert "None (409): 1" in refused(Client(stand_in.url)).detail


def test_a_problem_that_passes_says_when_to_try_again(stand_in: StandIn) -> None:
    stand_in.status, stand_in.headers = 503, {"Retry-After": "5"}
    stand_in.body = json.dumps({**PROBLEM, "code": "service.unavailable"}).encode()
    assert "  try again in 5 s" in refused(Client(stand_in.url)).detail.splitlines()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((502, b"<html>"), (500, b""), (302, b""), (404, b"[]"), (200, b"no JSON"), (400, b'{"a":1}')),
        pytest.param(200, b"[" * 100_000, id="deep"),
    ],
)
def test_an_answer_that_no_operation_gives_is_told_by_its_status(stand_in: StandIn, status: int, body: bytes) -> None:
    stand_in.status, stand_in.body, stand_in.headers = status, body, {"Location": "http://127.0.0.1:1/"}
    fault = refused(Client(stand_in.url))
    assert fault.detail == f"the server answered {status} without a problem"
    assert fault.body["status"] == status
    assert len(stand_in.seen) == 1


def test_an_answer_that_cannot_be_decoded_is_none(stand_in: StandIn) -> None:
    stand_in.body, stand_in.headers = b"{}", {"Content-Encoding": "gzip"}
    with pytest.raises(UnreachableError, match="does not answer"):
        Client(stand_in.url).ask("GET", "/health")


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=f"{url} does not answer"):
            Client(url).ask("GET", "/health")


def test_a_proxy_of_the_environment_is_not_given_the_token(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert Client(stand_in.url, "token").ask("GET", "/v1/runs") == {}
