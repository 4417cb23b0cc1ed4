from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from openapi_core.exceptions import OpenAPIError

from tests.support.contract import check
from tests.support.deliveries import PATH
from tests.support.gatehouse import Gatehouse
from tests.support.wire import Answer

REFUSED = (AssertionError, OpenAPIError)


def with_field(answer: Answer, name: str, value: str | None) -> Answer:
    """Return the answer with another value of a field, or without it."""
    others = tuple(field for field in answer.fields if field[0] != name)
    return replace(answer, fields=others if value is None else (*others, (name, value)))


def with_member(answer: Answer, name: str, value: Any) -> Answer:
    return replace(answer, body=json.dumps(answer.json | {name: value}).encode())


def refuse(method: str, target: str, answer: Answer) -> None:
    with pytest.raises(REFUSED):
        check(method, target, answer)


def test_an_answer_without_its_headers_is_refused(server: Gatehouse) -> None:
    admitted = server.deliver()
    for name, value in (
        ("x-request-id", None),
        ("x-request-id", "x"),
        ("x-coordinator-run-id", None),
        ("x-coordinator-run-id", "no uuid"),
        ("content-type", "text/plain"),
    ):
        refuse("POST", PATH, with_field(admitted, name, value))
    unauthenticated = server.deliver(key=bytes(32))
    refuse("POST", PATH, with_field(unauthenticated, "www-authenticate", None))
    refuse("POST", PATH, with_field(unauthenticated, "www-authenticate", "Basic"))
    wrong_method = server.send("GET", PATH)
    refuse("GET", PATH, with_field(wrong_method, "allow", None))
    refuse("GET", PATH, with_field(wrong_method, "allow", "GET"))


def test_an_answer_with_a_status_that_the_operation_does_not_have_is_refused(server: Gatehouse) -> None:
    admitted = server.deliver()
    refuse("POST", PATH, replace(admitted, status_line="HTTP/1.1 202 Accepted"))
    refuse("GET", "/health", server.operate("GET", "/v1/runs/no-uuid"))


def test_a_body_where_there_is_none_and_another_where_there_is_one_are_refused(server: Gatehouse) -> None:
    refuse("POST", PATH, replace(server.deliver(), body=b"{}"))
    live = server.send("GET", "/health")
    refuse("GET", "/health", replace(live, body=b""))
    refuse("GET", "/health", with_member(live, "live", "yes"))
    refuse("GET", "/health", with_field(live, "content-type", "text/plain"))


def test_a_problem_that_is_not_its_code_s_is_refused(server: Gatehouse) -> None:
    problem = server.deliver(key=bytes(32))
    for name, value in (
        ("code", "authentication.refused"),
        ("code", "event.unknown"),
        ("title", "Another"),
        ("type", "about:blank"),
        ("status", 403),
        ("traceId", "0" * 32),
        ("detail", ""),
        ("more", 1),
    ):
        with pytest.raises((*REFUSED, KeyError)):
            check("POST", PATH, with_member(problem, name, value))


def test_a_code_that_the_operation_does_not_have_is_refused(server: Gatehouse) -> None:
    unknown = server.operate("GET", "/v1/runs/no-uuid")
    assert unknown.code == "run.not-visible"
    refuse("GET", "/v1/runs", unknown)


def test_a_retry_after_is_on_503_alone(server: Gatehouse) -> None:
    problem = server.deliver(key=bytes(32))
    refuse("POST", PATH, with_field(problem, "retry-after", "5"))
