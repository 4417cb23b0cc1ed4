from __future__ import annotations

from typing import Final

import pytest

from tests.tools.lint.conftest import Edit, Edited

LOAN = "    Loan:\n      type: object"


FAULTS: Final[list[tuple[str, str, Edit]]] = [
    (
        "reference",
        "/paths/~1loans/post/requestBody/content/application~1json/schema/$ref",
        ("#/components/schemas/Lending", "other.yaml#/Lending"),
    ),
    (
        "reference",
        "/paths/~1loans/post/requestBody/content/application~1json/schema/$ref",
        ("#/components/schemas/Lending", "#/components/schemas/Nothing"),
    ),
    (
        "reference",
        "/paths/~1loans/post/responses/401/$ref",
        ("#/components/responses/Refused", "#/components/schemas/Loan"),
    ),
    (
        "reference",
        "/components/schemas/Round/$ref",
        (LOAN, f"    Round:\n      $ref: '#/components/schemas/Round'\n{LOAN}"),
    ),
    ("schema-name", "/components/schemas/Loan/$id", (LOAN, f"{LOAN}\n      $id: https://example.org/loan")),
    ("shape", "/info", ("  title: Library\n", "")),
    (
        "shape",
        "/paths/~1loans/post/parameters/0/in",
        ("          in: header\n", "          in: body\n"),
    ),
    (
        "openapi",
        "",
        ("operationId: followLoan\n      summary", "operationId: getLoan\n      summary"),
    ),
    ("extension", "/paths/~1loans/post/x-rate", ("      x-listeners", "      x-rate: 5\n      x-listeners")),
    ("extension", "/components/parameters/Loan/schema/x-order", ("maximum: 9999", "maximum: 9999, x-order: 1")),
    ("extension", "/info/x-problem", ("  title: Library", "  title: Library\n  x-problem: a")),
    ("extension", "/paths/~1loans/post/x-listeners/0", ("x-listeners: [control]", "x-listeners: [public]")),
    ("required-extension", "/paths/~1loans/post", ("      x-listeners: [control]\n", "")),
    ("required-extension", "/paths/~1loans/post/requestBody", ("        x-body-limit: 4096\n", "")),
    (
        "required-extension",
        "/components/securitySchemes/operatorToken",
        ("      x-problem: authentication.refused\n", ""),
    ),
]


@pytest.mark.parametrize(("rule", "pointer", "edit"), FAULTS)
def test_a_fault_of_form_is_found(lint_edited: Edited, rule: str, pointer: str, edit: Edit) -> None:
    assert (rule, pointer) in [(finding.rule, finding.pointer) for finding in lint_edited(edit)]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(("            x-canonical", "            x-canonical"), id="unchanged"),
    ][:0]
    + [
        pytest.param(("    data: 1.5", "    data: 1.5"), id="data"),
    ][:0]
    + [
        pytest.param(
            ("        loan: {type: integer}", "        loan: {type: integer}\n        x-loan: {type: string}"),
            id="member",
        ),
        pytest.param(('example: "data: {}\\n\\n"', "example: 'x-y: {$ref: nowhere}'"), id="example"),
        pytest.param(
            ("            Location:", "            x-extra: {schema: {type: string}}\n            Location:"),
            id="header",
        ),
    ],
)
def test_a_name_or_a_datum_is_no_keyword(lint_edited: Edited, edit: Edit) -> None:
    assert lint_edited(edit) == []
