from __future__ import annotations

import pytest

from tests.support.gatehouse import Gatehouse

REFUSED = (401, "authentication.refused")


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER {}", "Bearer  {}", "Bearer {} "])
def test_the_token_is_taken_under_its_scheme_in_any_letters(form: str, server: Gatehouse) -> None:
    fields = {"Authorization": form.format(server.token)}
    assert server.send("GET", "/v1/doctor", fields).status == 200


@pytest.mark.parametrize(
    "form",
    ["{}", "Bearer", "Bearer ", "Bearer x{}", "Bearer {}x", "Basic {}", "Bearer:{}", "Bearer\t{}", "", "Bearer {} {}"],
)
def test_anything_else_is_refused(form: str, server: Gatehouse) -> None:
    answer = server.send("GET", "/v1/doctor", {"Authorization": form.format(server.token, server.token)})
    assert answer.outcome == REFUSED
    assert answer.header("WWW-Authenticate") == 'Bearer realm="gatehouse"'


def test_no_token_and_two_tokens_are_refused(server: Gatehouse) -> None:
    assert server.send("GET", "/v1/doctor").outcome == REFUSED
    right, wrong = ("Authorization", f"Bearer {server.token}"), ("Authorization", "Bearer wrong")
    for fields in ([right, right], [right, wrong], [wrong, right]):
        assert server.send("GET", "/v1/doctor", fields).outcome == REFUSED


def test_the_token_in_the_query_counts_for_nothing(server: Gatehouse) -> None:
    assert server.send("GET", f"/v1/doctor?access_token={server.token}").outcome == REFUSED


def test_the_token_does_not_stand_for_a_signature(server: Gatehouse) -> None:
    unsigned = server.operator | {"X-Registry-Signature": None}
    assert server.deliver(unsigned=unsigned).outcome == (401, "event.unauthenticated")


def test_a_refused_request_is_not_read_and_changes_nothing(server: Gatehouse) -> None:
    fields = {"Content-Type": "application/json"}
    for path in ("/v1/restore-hold", "/v1/runs"):
        assert server.send("POST", path, fields, b"no JSON").outcome == REFUSED
    assert server.deliver().status == 204


def test_the_token_is_not_in_the_log(server: Gatehouse) -> None:
    assert server.operate("GET", "/v1/doctor").status == 200
    assert server.token not in server.log
