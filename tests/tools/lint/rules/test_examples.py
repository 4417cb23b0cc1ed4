from __future__ import annotations

from typing import Final

import pytest

from tests.tools.lint.conftest import Edit, Edited

LEND = "/paths/~1loans/post"
STREAM = "/paths/~1loans~1{loan}~1events/get/responses/200/content/text~1event-stream"
EVENTS = 'example: "data: {}\\n\\n"'


FAULTS: Final[list[tuple[str, str, Edit]]] = [
    ("example", f"{LEND}/parameters/0", ('          example: "2026-04-15T09:30:00Z"\n', "")),
    (
        "example",
        f"{LEND}/requestBody/content/application~1json",
        ("            example:\n              pages: 120\n              data: 1.5\n", ""),
    ),
    ("example", "/components/parameters/Loan", ("maximum: 9999}\n      example: 7", "maximum: 9999}")),
    ("example-valid", f"{LEND}/parameters/0/example", ('example: "2026-04-15T09:30:00Z"', "example: yesterday")),
    ("example-valid", f"{LEND}/requestBody/content/application~1json/example/pages", ("pages: 120", "pages: many")),
    ("example-valid", f"{LEND}/requestBody/content/application~1json/example", ("              pages: 120\n", "")),
    ("example-valid", f"{LEND}/responses/201/headers/Location/example", ("example: /loans/7", "example: 7")),
    (
        "example-valid",
        "/components/examples/OpenLoan/value/loan",
        ("      value:\n        loan: 7", "      value:\n        loan: x"),
    ),
    (
        "example-valid",
        "/components/schemas/Loan/properties/loan/example",
        ("loan: {type: integer}", "loan: {type: integer, example: x}"),
    ),
    (
        "example-valid",
        "/components/schemas/Loan/properties/loan/examples/1",
        ("loan: {type: integer}", "loan: {type: integer, examples: [1, x]}"),
    ),
    ("stream-example", f"{STREAM}/example", (EVENTS, 'example: "data: {}\\n\\ndata: []\\n\\n"')),
    ("stream-example", f"{STREAM}/example", (EVENTS, 'example: "data: {\\n\\n"')),
    ("stream-example", f"{STREAM}/examples/late/value", (EVENTS, 'examples: {late: {value: "data: 7\\n\\n"}}')),
]


@pytest.mark.parametrize(("rule", "pointer", "edit"), FAULTS)
def test_a_fault_of_an_example_is_found(lint_edited: Edited, rule: str, pointer: str, edit: Edit) -> None:
    assert (rule, pointer) in [(finding.rule, finding.pointer) for finding in lint_edited(edit)]


def test_the_other_lines_of_a_stream_are_free(lint_edited: Edited) -> None:
    lines = ": hello\\n\\nretry: 2000\\n\\nid: 1\\nevent: step\\ndata: {}\\n\\n"
    assert lint_edited((EVENTS, f'example: "{lines}"')) == []
