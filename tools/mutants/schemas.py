"""The changes of a schema's constraints; a `$ref` is followed to the schema that it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.mutants.document import GONE, Change, Place, at, resolved

_BOUNDS: Final = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
)
_DROPPED: Final = ("format", "if", "then", "else", "not", "uniqueItems", "dependentRequired")
_PARTS: Final = ("if", "then", "else", "not", "items", "x-item-schema")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")


def schema_changes(document: Mapping[str, Any], place: Place) -> Iterator[Change]:
    """Give each change of the schema at `place` and of all that it is made of, the outermost first."""
    seen: set[Place] = set()
    yield from _changes(document, place, seen)


def _changes(document: Mapping[str, Any], place: Place, seen: set[Place]) -> Iterator[Change]:
    place = resolved(document, place)
    schema = at(document, place)
    if place in seen or not isinstance(schema, dict):
        return
    seen.add(place)
    yield from _bounds(schema, place)
    yield from _values(schema, place)
    yield from _patterns(schema, place)
    yield from _members(schema, place)
    yield from _types(schema, place)
    for name in _DROPPED:
        if name in schema:
            yield Change((*place, name), GONE, "dropped")
    for name in _LISTS:
        for number in range(len(schema.get(name, ()))):
            if name != "allOf" and len(schema[name]) > 1:
                yield Change((*place, name, str(number)), GONE, "dropped")
            yield from _changes(document, (*place, name, str(number)), seen)
    for name in _PARTS:
        if name in schema:
            yield from _changes(document, (*place, name), seen)
    for name in schema.get("properties", ()):
        yield from _changes(document, (*place, "properties", name), seen)


def _bounds(schema: Mapping[str, Any], place: Place) -> Iterator[Change]:
    for name in _BOUNDS:
        bound = schema.get(name)
        if isinstance(bound, int):
            for moved in (bound - 1, bound + 1):
                if moved >= 0 or name.endswith("imum"):
                    yield Change((*place, name), moved, f"{bound} made {moved}")


def _values(schema: Mapping[str, Any], place: Place) -> Iterator[Change]:
    if "const" in schema:
        yield Change((*place, "const"), _another(schema["const"]), "made another value")
    values = schema.get("enum", [])
    for value in values:
        if len(values) > 1:
            yield Change((*place, "enum"), [each for each in values if each != value], f"{value} dropped")
    if values:
        added = _another(values[-1])
        yield Change((*place, "enum"), [*values, added], f"{added} added")


def _another(value: Any) -> Any:
    return value + 1 if isinstance(value, int) else f"{value}-x"


def _patterns(schema: Mapping[str, Any], place: Place) -> Iterator[Change]:
    pattern = schema.get("pattern")
    if pattern is None:
        return
    yield Change((*place, "pattern"), GONE, "dropped")
    if pattern.startswith("^"):
        yield Change((*place, "pattern"), pattern[1:], "open at its start")
    if pattern.endswith("$"):
        yield Change((*place, "pattern"), pattern[:-1], "open at its end")


def _members(schema: Mapping[str, Any], place: Place) -> Iterator[Change]:
    required = schema.get("required", [])
    for name in required:
        left = [each for each in required if each != name]
        yield Change((*place, "required"), left or GONE, f"{name} dropped")
    for name in schema.get("properties", ()):
        if "type" in schema and name not in required:
            yield Change((*place, "required"), [*required, name], f"{name} added")
    if schema.get("additionalProperties") is False:
        yield Change((*place, "additionalProperties"), GONE, "opened")
    elif "type" in schema and "properties" in schema and "additionalProperties" not in schema:
        yield Change((*place, "additionalProperties"), False, "closed")


def _types(schema: Mapping[str, Any], place: Place) -> Iterator[Change]:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        yield Change((*place, "type"), [kind for kind in kinds if kind != "null"], "null dropped")
    elif isinstance(kinds, str) and "properties" in place[-2:-1] and "enum" not in schema:
        yield Change((*place, "type"), [kinds, "null"], "null added")
