from __future__ import annotations

from typing import Final

import pytest

from tests.tools.lint.conftest import Edit, Edited

LEND = "/paths/~1loans/post"
INVALID = f"{LEND}/responses/400"
OPEN_CHALLENGE: Final[Edit] = ("headers: {WWW-Authenticate: Bearer}", "headers: {WWW-Authenticate: null}")


FAULTS: Final[list[tuple[str, str, Edit]]] = [
    (
        "problem-media-type",
        INVALID,
        (
            "valid.\n          content:\n            application/problem+json",
            "valid.\n          content:\n            application/json",
        ),
    ),
    ("problem-code", INVALID, ("enum: [loan.invalid, request.invalid]", "pattern: loan")),
    ("problem-code", INVALID, ("enum: [loan.invalid, ", "enum: [loan.invalid, loan.unheard, ")),
    ("problem-code", INVALID, ("enum: [loan.invalid, ", "enum: [loan.invalid, loan.unknown, ")),
    (
        "problem-unused",
        "/x-problems/request.invalid",
        ("enum: [loan.invalid, request.invalid]", "enum: [loan.invalid]"),
    ),
    (
        "problem-list",
        "/components/schemas/Problem/properties",
        ("            - https://example.org/loan/lost\n", ""),
    ),
    (
        "problem-list",
        "/components/schemas/Problem/properties/code",
        (
            "            - loan.lost\n            - loan.unknown\n",
            "            - loan.unknown\n            - loan.lost\n",
        ),
    ),
    (
        "problem-list",
        "/x-problems/loan.invalid",
        ("type: https://example.org/loan/invalid\n    members", "type: https://example.org/loan/lost\n    members"),
    ),
    (
        "problem-type",
        "/x-problems/loan.unknown/type",
        (
            "such loan\n    type: https://example.org/loan/unknown",
            "such loan\n    type: https://example.org/loan/invalid",
        ),
    ),
    ("problem-member", "/x-problems/loan.invalid/members", ("members: [errors]", "members: [issues]")),
    ("problem-member", "/x-problems/loan.invalid/members", ("members: [errors]", "members: [title]")),
    (
        "problem-header",
        "/x-problems/authentication.refused",
        ("headers: {WWW-Authenticate: Bearer}", "headers: {}"),
    ),
    ("problem-header", "/x-problems/service.unavailable", ("headers: {Retry-After: 5}", "headers: {Other: x}")),
    ("response-header", f"{LEND}/responses/503", ("            Retry-After:", "            Retry-Before:")),
    (
        "response-header",
        f"{LEND}/responses/503",
        ("Retry-After:\n              required: true\n", "Retry-After:\n"),
    ),
    (
        "response-header",
        f"{LEND}/responses/503/headers/Retry-After",
        (
            "schema: {type: integer, minimum: 1}\n              example: 5",
            "schema: {type: string}\n              example: now",
        ),
    ),
    (
        "response-header",
        "/components/responses/Refused/headers/WWW-Authenticate",
        ("enum: [Bearer]}\n          example: Bearer", "enum: [Basic]}\n          example: Basic"),
    ),
    ("challenge", "/components/responses/Refused/headers/WWW-Authenticate/schema", OPEN_CHALLENGE),
    (
        "problem-example",
        f"{INVALID}/content/application~1problem+json/example",
        ("title: The loan is not valid", "title: Wrong"),
    ),
    (
        "problem-example",
        f"{INVALID}/content/application~1problem+json/example",
        (
            "              example:\n                code: loan.invalid",
            "              example:\n                code: request.invalid",
        ),
    ),
    (
        "problem-example",
        f"{INVALID}/content/application~1problem+json/example",
        ("                errors: [pages]\n", ""),
    ),
    (
        "problem-example",
        "/components/responses/NoLoan/content/application~1problem+json/example",
        ("            code: loan.unknown\n", "            code: loan.unknown\n            errors: [loan]\n"),
    ),
    ("cause", LEND, ("x-problem: loan.invalid", "x-problem: loan.lost")),
    ("cause", "/paths/~1loans~1{loan}/get", ("x-problem: loan.unknown", "x-problem: loan.invalid")),
    ("cause", "/paths/~1loans~1{loan}/get", ("      x-problem: loan.unknown\n", "")),
    ("cause", LEND, ("x-problem: authentication.refused", "x-problem: loan.unknown")),
    ("cause", LEND, ('        "413":\n', '        "431":\n')),
]


@pytest.mark.parametrize(("rule", "pointer", "edit"), FAULTS)
def test_a_fault_of_a_problem_is_found(lint_edited: Edited, rule: str, pointer: str, edit: Edit) -> None:
    assert (rule, pointer) in [(finding.rule, finding.pointer) for finding in lint_edited(edit)]


def realm(name: str) -> Edit:
    return (
        "enum: [Bearer]}\n          example: Bearer",
        f'enum: [\'Bearer realm="{name}"\']}}\n          example: Bearer realm="{name}"',
    )


def test_an_open_challenge_is_documented_as_that_of_the_listener(lint_edited: Edited) -> None:
    assert lint_edited(OPEN_CHALLENGE, realm("gatehouse")) == []


def test_an_open_challenge_that_is_documented_as_another_listeners_is_found(lint_edited: Edited) -> None:
    found = lint_edited(OPEN_CHALLENGE, realm("join"))
    assert {finding.rule for finding in found} == {"challenge"}


def test_each_listener_has_its_own_challenge(lint_edited: Edited) -> None:
    moved = [("x-listeners: [control]", "x-listeners: [join]"), ("http://127.0.0.1:8080", "https://127.0.0.1:8443")]
    joined = ("    operatorToken:\n", "    joinToken:\n")
    secured = ("- operatorToken: []", "- joinToken: []")
    assert lint_edited(OPEN_CHALLENGE, realm("join"), *moved * 2, *[secured] * 2, joined) == []


def test_an_operation_whose_wrong_credentials_are_counted_documents_that_no_more_are_looked_at(
    lint_edited: Edited,
) -> None:
    scheme = "{type: apiKey, in: header, name: Authorization, x-problem: loan.unknown, x-principal: {}}"
    found = lint_edited(
        ("security: []", "security:\n        - installCode: []"),
        ("  securitySchemes:\n", f"  securitySchemes:\n    installCode: {scheme}\n"),
    )
    follow = "/paths/~1loans~1{loan}~1events/get"
    assert [(finding.rule, finding.pointer) for finding in found] == [("cause", follow)]
    assert found[0].message == "can be refused with 429 but does not document it"


def test_a_range_of_refusals_is_refused_as_such(lint_edited: Edited) -> None:
    found = lint_edited(('        "413":\n', '        "4XX":\n'))
    assert "status" in {finding.rule for finding in found}


def test_a_problem_without_closed_lists_is_as_good(lint_edited: Edited, library: str) -> None:
    codes = library[library.index("          enum:\n            - auth") : library.index("        errors:\n")]
    types = library[library.index("          enum:\n            - https") : library.index("x-problems:\n")]
    assert lint_edited((codes, ""), (types, "")) == []


def test_a_header_that_each_raiser_gives_needs_no_fixed_value(lint_edited: Edited) -> None:
    assert lint_edited(("headers: {Retry-After: 5}", "headers: {Retry-After: null}")) == []
