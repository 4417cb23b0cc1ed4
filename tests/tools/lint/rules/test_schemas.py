from __future__ import annotations

from typing import Final

import pytest

from tests.tools.lint.conftest import Edit, Edited

LEND = "/paths/~1loans/post"
LENDING = "/components/schemas/Lending/properties"
ITEM = "x-item-schema: {$ref: '#/components/schemas/Loan'}"
PAGES = "pages: {type: integer, minimum: 1, maximum: 5000}"
LENT_AT = "schema: {type: string, allOf: [{type: string, format: date-time}]}"


FAULTS: Final[list[tuple[str, str, Edit]]] = [
    ("keyword", "/components/parameters/Loan/schema/maximun", ("maximum: 9999", "maximun: 9999")),
    (
        "media-schema",
        f"{LEND}/responses/201/content/application~1json",
        ('              schema:\n                $ref: "#/components/schemas/Loan"\n', ""),
    ),
    ("schema", "/components/schemas/Loan/properties/loan/type", ("loan: {type: integer}", "loan: {type: int}")),
    (
        "schema",
        "/components/schemas/Problem/properties/errors/items/minLength",
        ("items: {type: string}", "items: {type: string, minLength: -1}"),
    ),
    ("schema", f"{LENDING}/renewal/default", ("default: false", "default: 0")),
    (
        "schema",
        "/components/schemas/Problem/properties/title/pattern",
        ("title: {type: string}", "title: {type: string, pattern: '(?<=a{1,'}"),
    ),
    (
        "parameter",
        "/components/parameters/Loan",
        ("schema: {type: integer, minimum: 1, maximum: 9999}", "schema: {type: number}"),
    ),
    ("parameter", f"{LEND}/parameters/0", ("          in: header\n", "          in: cookie\n")),
    ("header", f"{LEND}/parameters/0/schema", (LENT_AT, "schema: {type: string, format: date-time}")),
    ("header", f"{LEND}/parameters/0/schema", (LENT_AT, "schema: {type: string, const: '2026-04-15T09:30:00Z'}")),
    (
        "header",
        "/components/responses/Refused/headers/WWW-Authenticate/schema",
        ("schema: {type: string, enum: [Bearer]}", "schema: {type: string, const: Bearer}"),
    ),
    (
        "object-name",
        "/components/schemas/LoanEvent/properties/loan",
        (
            'loan:\n          $ref: "#/components/schemas/Loan"',
            "loan: {type: object, properties: {loan: {type: string}}}",
        ),
    ),
    (
        "object-name",
        f"{LEND}/requestBody/content/application~1json/schema",
        ('$ref: "#/components/schemas/Lending"', "properties: {pages: {type: string}}"),
    ),
    (
        "object-name",
        "/components/schemas/LoanEvent/properties/not",
        (
            "    LoanEvent:\n      type: object\n      properties:\n",
            "    LoanEvent:\n      properties:\n        not: {properties: {}}\n",
        ),
    ),
    ("signed-number", f"{LENDING}/pages", (PAGES, "pages: {type: integer, minimum: 1}")),
    ("signed-number", f"{LENDING}/pages", (PAGES, "pages: {type: [number, 'null'], maximum: 1}")),
    ("signed-number", f"{LENDING}/pages/items", (PAGES, "pages: {type: array, items: {type: integer}}")),
    (
        "signed-number",
        "/components/schemas/Loan/properties/loan",
        (PAGES, "pages: {$ref: '#/components/schemas/Loan'}"),
    ),
    ("signed-number", f"{LENDING}/pages", (PAGES, "pages: {description: Any.}")),
    ("signed-number", "/components/schemas/Lending", ("      additionalProperties: false\n", "")),
    (
        "header",
        f"{LEND}/parameters/0/schema",
        (LENT_AT, "schema: {type: string, format: uuid}"),
    ),
    ("signed-number", f"{LENDING}/pages/anyOf/0", (PAGES, "pages: {anyOf: [{type: number}, {type: string}]}")),
    (
        "item-schema",
        "/paths/~1loans~1{loan}~1events/get/responses/200/content/text~1event-stream",
        ('              x-item-schema:\n                $ref: "#/components/schemas/LoanEvent"\n', ""),
    ),
    (
        "item-schema",
        "/paths/~1loans~1{loan}~1events/get/responses/200/content/text~1event-stream/schema",
        ("schema: {type: string}\n              x-item", "schema: {type: object}\n              x-item"),
    ),
    (
        "item-schema",
        f"{LEND}/responses/201/content/application~1json",
        (
            "application/json:\n              schema:",
            f"application/json:\n              {ITEM}\n              schema:",
        ),
    ),
]


@pytest.mark.parametrize(("rule", "pointer", "edit"), FAULTS)
def test_a_fault_of_a_schema_is_found(lint_edited: Edited, rule: str, pointer: str, edit: Edit) -> None:
    assert (rule, pointer) in [(finding.rule, finding.pointer) for finding in lint_edited(edit)]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(
            (LENT_AT, "schema: {type: string, enum: ['2026-04-15T09:30:00Z']}"), id="a header with an enum of one"
        ),
        pytest.param(
            (PAGES, "pages: {type: integer, exclusiveMinimum: 0, exclusiveMaximum: 9}"), id="exclusive bounds"
        ),
        pytest.param(
            (
                "    LoanEvent:\n      type: object\n",
                "    LoanEvent:\n      allOf: [{properties: {loan: {}}}]\n",
            ),
            id="allOf of a component",
        ),
        pytest.param(
            (
                "        title: {type: string}",
                "        title: {type: string}\n        details: {type: object, additionalProperties: true}",
            ),
            id="a map",
        ),
        pytest.param(("items: {type: string}", "items: {$ref: '#/components/schemas/Problem'}"), id="recursion"),
    ],
)
def test_a_schema_may_be_written_so(lint_edited: Edited, edit: Edit) -> None:
    found = [finding for finding in lint_edited(edit) if finding.rule != "example-valid"]
    assert found == []
