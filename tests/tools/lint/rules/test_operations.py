from __future__ import annotations

from typing import Final

import pytest

from tests.tools.lint.conftest import Edit, Edited

LEND = "/paths/~1loans/post"
CREATED = f"{LEND}/responses/201"
SECURITY = "      security:\n        - operatorToken: []\n"


FAULTS: Final[list[tuple[str, str, Edit]]] = [
    ("version", "/info/version", ("version: 0.1.0", "version: v1")),
    ("operation-id", LEND, ("      operationId: lendBook\n", "")),
    ("operation-id", LEND, ("operationId: lendBook", "operationId: lend_book")),
    (
        "operation-id",
        "/paths/~1loans~1{loan}~1events/get/operationId",
        ("operationId: followLoan\n      summary", "operationId: getLoan\n      summary"),
    ),
    ("text", LEND, ("      summary: Lend a book\n", "")),
    ("text", LEND, ("      description: Lends a book to a reader.\n", "")),
    ("text", "/tags/0", ("    description: What is lent.\n", "")),
    ("text", f"{LEND}/parameters/0", ("          description: When the book was lent.\n", "")),
    ("tag", LEND, ("tags: [loans]", "tags: [books]")),
    ("tag", LEND, ("tags: [loans]", "tags: [loans, loans]")),
    ("tag", LEND, ("      tags: [loans]\n", "")),
    ("status", f"{LEND}/responses/default", ("responses:\n", "responses:\n        default: {description: Any.}\n")),
    ("status", f"{LEND}/responses/2XX", ("responses:\n", "responses:\n        2XX: {description: Any.}\n")),
    ("server", LEND, ("url: http://127.0.0.1:8080", "url: http://127.0.0.1:8443")),
    ("server", LEND, ("      servers:\n        - url: http://127.0.0.1:8080\n", "")),
    ("security", LEND, (SECURITY, "")),
    ("security", f"{LEND}/security", (SECURITY, "      security: [{operatorToken: []}, {}]\n")),
    ("security", f"{LEND}/security", (SECURITY, SECURITY.replace("operatorToken", "nobody"))),
    (
        "security",
        "/paths/~1loans~1{loan}~1events/get/security",
        ("security: []", "security: [{operatorToken: []}]"),
    ),
    ("unused", "/components/schemas/Spare", ("  schemas:\n", "  schemas:\n    Spare: {type: string}\n")),
    (
        "unused",
        "/components/responses/Spare",
        ("  responses:\n    R", "  responses:\n    Spare: {description: No.}\n    R"),
    ),
    (
        "link",
        f"{CREATED}/links/getLoan",
        ("operationId: getLoan\n              par", "operationId: get\n              par"),
    ),
    (
        "link",
        f"{CREATED}/links/getLoan/parameters/book",
        ("loan: $response", "book: '1'\n                loan: $response"),
    ),
    (
        "link",
        f"{CREATED}/links/getLoan",
        ("                loan: $response.body#/loan", "                path.book: '1'"),
    ),
    ("link", f"{CREATED}/links/getLoan/parameters/loan", ("$response.body#/loan", "$response.body#/book")),
    ("link", f"{CREATED}/links/getLoan/parameters/loan", ("$response.body#/loan", "$response.header.ETag")),
    ("link", f"{CREATED}/links/getLoan/parameters/loan", ("$response.body#/loan", "$request.query.loan")),
    ("link", f"{CREATED}/links/getLoan/parameters/loan", ("$response.body#/loan", "$inputs.loan")),
    (
        "link",
        f"{CREATED}/links/getLoan/requestBody",
        (
            "              parameters:\n                loan",
            "              requestBody: 1\n              parameters:\n                loan",
        ),
    ),
]


@pytest.mark.parametrize(("rule", "pointer", "edit"), FAULTS)
def test_a_fault_of_an_operation_is_found(lint_edited: Edited, rule: str, pointer: str, edit: Edit) -> None:
    assert (rule, pointer) in [(finding.rule, finding.pointer) for finding in lint_edited(edit)]


def test_an_operation_needs_a_success(lint_edited: Edited) -> None:
    found = lint_edited(('"200":\n          description: The events.', '"304":\n          description: The events.'))
    assert [(finding.rule, finding.message) for finding in found] == [("status", "has no success")]


@pytest.mark.parametrize(
    "source", ["$response.header.Location", "$request.header.lent-at", "$request.body#/pages", "$response.body#", "'7'"]
)
def test_a_link_may_draw_on_what_is_documented(lint_edited: Edited, source: str) -> None:
    assert lint_edited(("$response.body#/loan", source)) == []


def test_a_link_may_draw_on_an_element_of_a_list(lint_edited: Edited) -> None:
    loans = "{type: array, items: {$ref: '#/components/schemas/Loan'}}"
    edits = (
        (
            '              schema:\n                $ref: "#/components/schemas/Loan"\n',
            f"              schema: {loans}\n",
        ),
        (
            "              example:\n                loan: 7\n                returned: null\n",
            "              example: []\n",
        ),
        ("$response.body#/loan", "$response.body#/0/loan"),
    )
    assert lint_edited(*edits) == []
