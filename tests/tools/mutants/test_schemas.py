from __future__ import annotations

from typing import Any

import pytest

from tools.mutants.document import pointer
from tools.mutants.schemas import schema_changes


def made(schema: Any, **others: Any) -> list[str]:
    """The changes of a schema, each as its place and what is done there."""
    document = {"schema": schema} | others
    return [f"{pointer(each.place[1:])} {each.what}" for each in schema_changes(document, ("schema",))]


@pytest.mark.parametrize(
    ("schema", "changes"),
    [
        ({"maximum": 8}, ["/maximum 8 made 7", "/maximum 8 made 9"]),
        ({"minimum": 0}, ["/minimum 0 made -1", "/minimum 0 made 1"]),
        ({"minLength": 0}, ["/minLength 0 made 1"]),
        ({"enum": ["a", "b"]}, ["/enum a dropped", "/enum b dropped", "/enum b-x added"]),
        ({"enum": [1]}, ["/enum 2 added"]),
        ({"const": 0}, ["/const made another value"]),
        ({"pattern": "^a$"}, ["/pattern dropped", "/pattern open at its start", "/pattern open at its end"]),
        ({"pattern": "a"}, ["/pattern dropped"]),
        ({"format": "uuid"}, ["/format dropped"]),
        ({"additionalProperties": False}, ["/additionalProperties opened"]),
        (
            {"type": "object", "required": ["a"], "properties": {"a": {}, "b": {}}},
            ["/required a dropped", "/required b added", "/additionalProperties closed"],
        ),
        ({"properties": {"a": {"type": "string"}}}, ["/properties/a/type null added"]),
        ({"type": ["string", "null"]}, ["/type null dropped"]),
        ({"anyOf": [{}, {}]}, ["/anyOf/0 dropped", "/anyOf/1 dropped"]),
        ({"allOf": [{"format": "uuid"}]}, ["/allOf/0/format dropped"]),
        ({"if": {"const": 0}, "then": {}}, ["/if dropped", "/then dropped", "/if/const made another value"]),
        ({"items": {"not": {}}}, ["/items/not dropped"]),
        ({"type": "string", "description": "Nothing.", "examples": ["a"]}, []),
    ],
)
def test_each_constraint_is_changed_in_turn(schema: Any, changes: list[str]) -> None:
    assert made(schema) == changes


def test_what_is_referred_to_is_changed_once_where_it_stands() -> None:
    twice = {"properties": {"a": {"$ref": "#/parts"}, "b": {"$ref": "#/parts"}}}
    assert [each.place for each in schema_changes({"s": twice, "parts": {"format": "uuid"}}, ("s",))] == [
        ("parts", "format")
    ]


def test_a_schema_of_itself_comes_to_an_end() -> None:
    assert made({"format": "uuid", "items": {"$ref": "#/schema"}}) == ["/format dropped"]
