from __future__ import annotations

from typing import get_args

import pytest

from tests.generator.problems.generated.kitchen import problems
from tests.generator.problems.generated.kitchen.models import FieldError
from tests.generator.problems.generated.kitchen.operations import cook as op
from tests.generator.problems.generated.runtime import Problem


def test_a_problem_is_an_exception_with_its_code_status_type_and_title() -> None:
    with pytest.raises(Problem) as caught:
        raise op.Fire("The oven burns.")
    problem = caught.value
    assert (problem.code, problem.status, problem.type, problem.title) == (
        "FIRE",
        500,
        "urn:kitchen:fire",
        "The kitchen is on fire",
    )
    assert (problem.detail, problem.headers, problem.members) == ("The oven burns.", {}, {})


def test_the_trace_id_has_the_name_that_the_document_gives_it() -> None:
    assert op.Fire.trace_member == "requestId"


def test_a_fixed_header_is_always_there() -> None:
    assert op.UnknownGuest("Who are you?").headers == {"WWW-Authenticate": 'Guest realm="kitchen"'}


def test_a_header_with_a_default_may_be_given_otherwise() -> None:
    assert op.Full("Come back.").headers == {"Retry-After": "1"}
    assert op.Full("Come back.", retry_after=60).headers == {"Retry-After": "60"}


def test_a_header_without_a_value_has_to_be_given() -> None:
    assert op.MethodNotAllowed("Cook it.", allow="POST").headers == {"Allow": "POST"}
    with pytest.raises(TypeError, match="allow"):
        op.MethodNotAllowed("Cook it.")  # type: ignore[call-arg]


def test_a_time_to_wait_without_a_value_is_given_in_seconds() -> None:
    assert op.Queued("Two are before you.", retry_after=90).headers == {"Retry-After": "90"}
    with pytest.raises(TypeError, match="retry_after"):
        op.Queued("Two are before you.")  # type: ignore[call-arg]


def test_a_challenge_without_a_value_is_the_gateways_to_give() -> None:
    assert op.UnknownCook("Who are you?").headers == {}
    with pytest.raises(TypeError, match="www_authenticate"):
        op.UnknownCook("Who are you?", www_authenticate="Cook")  # type: ignore[call-arg]


def test_a_member_has_to_be_given_and_has_the_type_of_the_problem_schema() -> None:
    errors = [FieldError(field_="dish", message="is not on the menu")]
    assert op.InvalidOrder("Look at the menu.", errors=errors).members == {"errors": errors}
    with pytest.raises(TypeError, match="errors"):
        op.InvalidOrder("Look at the menu.")  # type: ignore[call-arg]


def test_headers_and_members_go_together() -> None:
    closed = op.Closed("Tomorrow.", x_reason="holiday", errors=[], details={"until": 8})
    assert closed.headers == {"X-Kitchen": "south", "Retry-After": "300", "X-Reason": "holiday"}
    assert closed.members == {"errors": [], "details": {"until": 8}}


def test_an_operation_has_its_own_problems_and_no_other() -> None:
    assert op.OPERATION.problems == get_args(op.Problems)
    assert problems.NotFound not in op.OPERATION.problems
    assert not hasattr(op, "NotFound")


def test_a_code_that_only_the_gateway_gives_has_a_class_too() -> None:
    assert problems.NotFound.status == 404
