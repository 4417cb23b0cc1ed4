from __future__ import annotations

import copy
import socket
from typing import Any

import pytest

from handlers.coordinator.workflows.schema import (
    DIALECT,
    MAX_LEVELS,
    MAX_SCHEMAS,
    MAX_UNEVALUATED,
    check_schema,
    compile_schema,
)
from tests.handlers.coordinator.workflows.building import run_child

GOOD: dict[str, Any] = {
    "$schema": DIALECT,
    "title": "A case",
    "type": "object",
    "additionalProperties": False,
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        "at": {"$ref": "#/$defs/a~1b"},
        "kind": {"enum": ["a", "b"], "default": {"minLenght": 1}},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "uniqueItems": True},
        "pair": {"prefixItems": [{"const": {"$ref": "x"}}, True], "unevaluatedItems": False},
        "minLenght": {"oneOf": [{"multipleOf": 0.5}, {"not": {"type": "null"}}]},
    },
    "patternProperties": {"^x-": {"maxLength": 9}},
    "dependentSchemas": {"at": {"properties": {"id": {"minLength": 1}}}},
    "$defs": {"a/b": {"type": "string", "format": "date-time"}},
}


def faults(schema: Any) -> list[tuple[str, str]]:
    return sorted((".".join(map(str, fault.path)), fault.message) for fault in check_schema(schema))


def chain(length: int, **last: Any) -> dict[str, Any]:
    names = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**names, f"d{length}": last}}


def wrapped(levels: int, **around: Any) -> Any:
    schema: Any = {"properties": {"a": {"type": "string"}}}
    for _ in range(levels):
        schema = {"if": schema, **copy.deepcopy(around)}
    return schema


def test_a_schema_of_the_standard_is_taken_and_holds_values_to_its_formats() -> None:
    assert faults(GOOD) == []
    validator = compile_schema(GOOD)
    value = {"id": "7c0f3a52-5b1e-4d7e-9a41-2f6d8c1b9e30", "at": "2026-01-02T03:04:05Z", "tags": ["a"], "x-a": "b"}
    assert validator.is_valid(value)
    assert not validator.is_valid({**value, "id": "7c0f"})
    assert not validator.is_valid({**value, "at": "2026-02-30T03:04:05Z"})
    assert not validator.is_valid({**value, "tags": ["a\n"]})
    assert not validator.is_valid({**value, "y": 1})


@pytest.mark.parametrize("schema", [True, False, {}])
def test_a_schema_may_be_as_small_as_the_standard_allows(schema: Any) -> None:
    assert faults(schema) == []
    assert compile_schema(schema).is_valid({}) is (schema is not False)


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        ({"type": "strng"}, "type", "must be a type of JSON, or a list of different ones"),
        ({"type": []}, "type", "must be a type of JSON, or a list of different ones"),
        ({"minLength": -1}, "minLength", "is not JSON Schema: -1 is less than"),
        ({"required": "a"}, "required", "is not JSON Schema"),
        ({"items": [{}]}, "items", "is not JSON Schema"),
        ({"multipleOf": 0}, "multipleOf", "is not JSON Schema"),
        ({"minLenght": 1}, "minLenght", "no such keyword"),
        ({"definitions": {}}, "definitions", "no such keyword"),
        ({"$id": "urn:x"}, "$id", "no such keyword"),
        ({"$anchor": "a"}, "$anchor", "no such keyword"),
        ({"$dynamicRef": "#a"}, "$dynamicRef", "no such keyword"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "$schema", f"must be {DIALECT}"),
        ({"format": "uid"}, "format", "the format uid is not known"),
        ({"pattern": "("}, "pattern", "no pattern that can be matched in linear time"),
        ({"pattern": "(?=a)"}, "pattern", "no pattern that can be matched in linear time"),
        ({"pattern": r"(a)\1"}, "pattern", "no pattern that can be matched in linear time"),
        ({"pattern": "(a{1000}){1000}"}, "pattern", "no pattern that can be matched in linear time"),
        ({"patternProperties": {"[": {}}}, "patternProperties.[", "no pattern that can be matched in linear time"),
        ({"properties": {"a": {"allOf": [{}, {"format": "uid"}]}}}, "properties.a.allOf.1.format", "not known"),
        ({"$ref": "http://127.0.0.1:9/x"}, "$ref", "must name a schema in this schema"),
        ({"$ref": DIALECT}, "$ref", "must name a schema in this schema"),
        ({"$ref": "file:///etc/hostname"}, "$ref", "must name a schema in this schema"),
        ({"$ref": "#/$defs/x"}, "$ref", "must name a schema in this schema"),
        ({"$ref": "#x"}, "$ref", "must name a schema in this schema"),
        ({"$ref": "#/$defs/%61", "$defs": {"a": {}}}, "$ref", "must name a schema in this schema"),
        ({"$ref": "#/const", "const": {}}, "$ref", "must name a schema in this schema"),
        ({"allOf": [{"$ref": "#/allOf/x"}]}, "allOf.0.$ref", "must name a schema in this schema"),
        ({"$ref": "#"}, "$ref", "leads back to itself"),
        ({"properties": {"a": {"items": {"$ref": "#"}}}}, "properties.a.items.$ref", "leads back to itself"),
    ],
)  # fmt: skip
def test_what_is_no_schema_that_can_be_held_is_told_at_its_keyword(schema: Any, path: str, words: str) -> None:
    [(where, message)] = faults(schema)
    assert where == path
    assert words in message


def test_all_faults_are_told_at_once() -> None:
    schema = {"type": 5, "minLenght": 1, "properties": {"a": {"pattern": "("}, "b": {"format": "f", "$ref": "x"}}}
    assert {path for path, _ in faults(schema)} == {
        "type",
        "minLenght",
        "properties.a.pattern",
        "properties.b.format",
        "properties.b.$ref",
    }


def test_references_that_lead_to_each_other_are_refused() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}
    assert faults(schema) == [("$defs.b.not.$ref", "leads back to itself: what it describes has no end")]


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(ValueError, match="Retrieval is disabled"):
        compile_schema({"$ref": "http://127.0.0.1:9/x"})


def test_a_schema_is_bounded_in_size_depth_and_expansion() -> None:
    assert faults({"anyOf": [{"type": "null"}] * (MAX_SCHEMAS - 1)}) == []
    assert "at most 1,000 schemas" in faults({"anyOf": [{"type": "null"}] * MAX_SCHEMAS})[0][1]
    assert faults(chain(MAX_LEVELS - 1, type="null")) == []
    assert any("nest at most 64 deep" in message for _, message in faults(chain(900, type="null")))
    doubling = {f"d{number}": {"allOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(30)}
    [(path, message)] = faults({"$ref": "#/$defs/d0", "$defs": {**doubling, "d30": {"type": "null"}}})
    assert (path, message) == ("", "has more than 5,000 schemas, with each $ref written out")


def test_what_the_library_looks_at_twice_nests_a_few_levels_only() -> None:
    assert faults(wrapped(MAX_UNEVALUATED, unevaluatedProperties=False)) == []
    assert faults(wrapped(15)) == []
    for keyword in ("unevaluatedProperties", "unevaluatedItems"):
        [(_, message)] = faults(wrapped(MAX_UNEVALUATED + 1, **{keyword: False}))
        assert "nest at most 4 deep" in message


def test_within_the_bounds_a_large_value_is_judged_and_the_process_lives() -> None:
    child = run_child(
        """
import functools
from handlers.coordinator.workflows.schema import check_schema, compile_schema
grow = lambda make, times: functools.reduce(lambda schema, _: make(schema), range(times), {"properties": {"a": True}})
schemas = [
    grow(lambda below: {"if": below, "then": True, "unevaluatedProperties": False}, 4),
    grow(lambda below: {"anyOf": [{"not": below}, below]}, 8),
    grow(lambda below: {"oneOf": [below, {"type": "string"}, below]}, 5),
    {"properties": {"xs": {"uniqueItems": True, "contains": {"const": -1}}}},
    {"properties": {"xs": {"items": {"pattern": "^(a+)+$"}}, "s": {"pattern": "(x+x+)+y"}}},
]
for schema in schemas:
    assert check_schema(schema) == [], check_schema(schema)
    compile_schema(schema).is_valid({"xs": [[n] for n in range(20_000)], "s": "x" * 100_000, "a": "a"})
    print("judged", flush=True)
"""
    )
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout == "judged\n" * 5
