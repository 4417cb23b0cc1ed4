from __future__ import annotations

from typing import Final

import pytest

from tests.tools.lint.conftest import Edit, Edited

LEND: Final = "/paths/~1loans/post"
SCHEMAS: Final = "/components/schemas"
LENDING: Final = f"{SCHEMAS}/Lending/properties"
PAGES: Final = "pages: {type: integer, minimum: 1, maximum: 5000}"
LENT_AT: Final = "schema: {type: string, allOf: [{type: string, format: date-time}]}"
EVENT: Final = "    LoanEvent:\n      type: object\n"
PARAMETER: Final = "      parameters:\n        - name: lent-at\n          in: header\n"
BODY: Final = '          application/json:\n            schema:\n              $ref: "#/components/schemas/Lending"'
ANSWER: Final = (
    '            application/json:\n              schema:\n                $ref: "#/components/schemas/Loan"'
)


FAULTS: Final[list[tuple[str, str, Edit]]] = [
    ("distinct-name", f"{SCHEMAS}/loan_event", ("    Problem:\n", "    loan_event: {type: object}\n    Problem:\n")),
    ("distinct-name", f"{LENDING}/Pages", (PAGES, f"{PAGES}\n        Pages: {{type: string}}")),
    (
        "distinct-name",
        f"{LEND}/parameters/1",
        (PARAMETER, f"      parameters:\n        - {{name: Lent-At, in: header, schema: {{}}}}\n{PARAMETER[18:]}"),
    ),
    ("derived-name", f"{SCHEMAS}/Problem/properties/code", (EVENT, f"    ProblemCode: {{type: string}}\n{EVENT}")),
    (
        "derived-name",
        f"{SCHEMAS}/Prob/properties/lemCode",
        (EVENT, f"    Prob:\n      properties:\n        lemCode: {{enum: [a]}}\n{EVENT}"),
    ),
    (
        "derived-name",
        f"{LENDING}/pages/items",
        (PAGES, "pages: {type: array, items: {enum: [a]}}\n        pagesItem: {enum: [b]}"),
    ),
    ("derived-name", f"{SCHEMAS}/LendBookResponse400", (EVENT, f"    LendBookResponse400: {{type: object}}\n{EVENT}")),
    ("derived-name", f"{SCHEMAS}/LendBookData", (EVENT, f"    LendBookData: {{type: object}}\n{EVENT}")),
    ("enum-value", f"{LENDING}/pages/enum", (PAGES, "pages: {enum: [a, 1]}")),
    ("enum-value", f"{LENDING}/pages/enum", (PAGES, "pages: {type: string, enum: [too-large, TOO_LARGE]}")),
    ("typed-part", f"{LEND}/parameters/0/schema/allOf/0", (LENT_AT, LENT_AT.replace("type: string, format", "format"))),
    (
        "typed-part",
        f"{LENDING}/pages/allOf/0",
        (PAGES, "pages: {type: [string, 'null'], allOf: [{format: date-time}]}"),
    ),
    ("client-media", f"{LEND}/requestBody", (BODY, BODY.replace("json", "yaml"))),
    ("client-media", f"{LEND}/responses/201", (ANSWER, ANSWER.replace("json", "xml"))),
]


@pytest.mark.parametrize(("rule", "pointer", "edit"), FAULTS)
def test_what_client_generators_stumble_over_is_found(lint_edited: Edited, rule: str, pointer: str, edit: Edit) -> None:
    assert (rule, pointer) in [(finding.rule, finding.pointer) for finding in lint_edited(edit)]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param((PAGES, "pages: {type: [string, 'null'], enum: [a, b, null]}"), id="an enum with null"),
        pytest.param((PAGES, "pages: {type: string, enum: ['1.0', '10']}"), id="an enum of versions"),
        pytest.param(
            (PAGES, "pages: {type: string, allOf: [{anyOf: [{format: ipv4}, {format: ipv6}]}]}"), id="a choice"
        ),
        pytest.param((BODY, f"{BODY.replace('json', 'yaml')}\n{BODY}"), id="YAML beside JSON"),
    ],
)
def test_client_generators_bear_this(lint_edited: Edited, edit: Edit) -> None:
    rules = {"distinct-name", "derived-name", "enum-value", "typed-part", "client-media"}
    assert rules.isdisjoint(finding.rule for finding in lint_edited(edit))
