from __future__ import annotations

from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from handlers.gateway.faults import Finding
from handlers.gateway.schemas import Describer, validator

CONTRACT: dict[str, Any] = {
    "paths": {
        "/a/{b}": {
            "get": {
                "parameters": [
                    {"schema": {"type": "string", "format": "uuid"}},
                    {"schema": {"$ref": "#/components/schemas/Time"}},
                ]
            }
        }
    },
    "components": {
        "schemas": {
            "Time": {"type": "string", "format": "date-time"},
            "Odd~name/x": {"type": "integer"},
            "Link": {"type": "object", "properties": {"interface": {"type": "string"}}, "required": ["interface"]},
            "Node": {
                "type": "object",
                "properties": {
                    "links": {"type": "array", "items": {"$ref": "#/components/schemas/Link"}},
                    "seen": {"$ref": "#/components/schemas/Time"},
                    "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "kind": {"enum": ["a", "b"]},
                    "one": {"oneOf": [{"type": "string"}, {"type": "null"}]},
                },
                "additionalProperties": False,
            },
        }
    },
}
DESCRIBER = Describer(CONTRACT)


def findings(value: Any, pointer: str = "/components/schemas/Node") -> list[Finding]:
    return [DESCRIBER.describe(error) for error in validator(CONTRACT, pointer).iter_errors(value)]


def test_a_pointer_may_have_braces_tildes_and_slashes() -> None:
    assert validator(CONTRACT, "/paths/~1a~1{b}/get/parameters/0/schema").is_valid(
        "0" * 8 + "-0000" * 3 + "-" + "0" * 12
    )
    assert not validator(CONTRACT, "/components/schemas/Odd~0name~1x").is_valid("1")


def test_several_pointers_make_the_schema_of_an_object() -> None:
    pointers = {name: f"/paths/~1a~1{{b}}/get/parameters/{index}/schema" for index, name in enumerate(["id", "at"])}
    check = validator(CONTRACT, pointers)
    assert isinstance(check, Draft202012Validator)
    assert check.is_valid({"at": "2026-01-02T03:04:05Z"})
    assert sorted(error.instance_path for error in check.iter_errors({"id": "x", "at": "2026"})) == [["at"], ["id"]]


@pytest.mark.parametrize(
    ("value", "finding"),
    [
        ({"links": [{"interface": "a"}, {}]}, Finding("links[1].interface", "is required")),
        ({"links": 7}, Finding("links", "is not of the type that the document asks for")),
        ({"seen": "yesterday"}, Finding("seen", "does not have the form that the document asks for")),
        ({"kind": "s3cr3t"}, Finding("kind", "is not one of the values that the document allows")),
        ({"one": 1}, Finding("one", "does not satisfy the document")),
        ({"s3cr3t": 1}, Finding("", "has a member that the document does not know")),
        (7, Finding("", "is not of the type that the document asks for")),
    ],
)
def test_a_finding_says_where_and_why(value: Any, finding: Finding) -> None:
    assert findings(value) == [finding]


def test_a_name_that_the_document_does_not_have_is_not_repeated() -> None:
    assert findings({"tags": {"s3cr3t": "x"}}) == [Finding("tags", "is not of the type that the document asks for")]
