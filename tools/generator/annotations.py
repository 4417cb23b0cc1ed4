"""Gives the Python type of a schema, for everything but the models, whose types datamodel-code-generator gives."""

from __future__ import annotations

import json
from typing import Any, Final

from tools.generator.documents import Node

_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_SCHEMAS: Final = "/components/schemas/"


def literal(value: object) -> str:
    """Write a JSON scalar as a Python expression."""
    if not isinstance(value, str):
        return repr(value)
    if '"' in value and "'" not in value and "\\" not in value and value.isprintable():
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False)


def annotation(schema: Node) -> str:
    """Return the type of a value that satisfies `schema`; a named schema is its model.

    Refuses an object that is spelt out: it has to have a name under components.
    """
    if schema.value is True:
        return "Any"
    if "$ref" in schema.mapping():
        target = schema.resolved()
        _, is_schema, name = target.pointer.partition(_SCHEMAS)
        return name if is_schema and "/" not in name else annotation(target)
    for keyword in ("anyOf", "oneOf"):
        if (alternatives := schema.get(keyword)) is not None:
            return union([annotation(alternative) for alternative in alternatives.elements()])
    return _of_keywords(schema, merged(schema))


def union(annotations: list[str]) -> str:
    """Join types, each once, in order of appearance."""
    return " | ".join(dict.fromkeys(annotations))


def merged(schema: Node) -> dict[str, Any]:
    """Return the keywords of `schema` together with those of its `$ref` and `allOf`; its own win."""
    keywords: dict[str, Any] = {}
    if "$ref" in schema.mapping():
        keywords |= merged(schema.resolved())
    if (parts := schema.get("allOf")) is not None:
        for part in parts.elements():
            keywords |= merged(part)
    return keywords | {key: value for key, value in schema.mapping().items() if key not in {"$ref", "allOf"}}


def _of_keywords(schema: Node, keywords: dict[str, Any]) -> str:
    if "const" in keywords:
        return _of_values(schema, [keywords["const"]])
    if "enum" in keywords:
        return _of_values(schema, keywords["enum"])
    kinds = keywords.get("type")
    if kinds is None:
        return "Any"
    return union([_of_type(schema, kind) for kind in (kinds if isinstance(kinds, list) else [kinds])])


def _of_values(schema: Node, values: list[Any]) -> str:
    if not all(value is None or isinstance(value, str | int) for value in values):
        raise schema.refuse("only text, integers, booleans and null can be enumerated")
    literals = ", ".join(literal(value) for value in values if value is not None)
    return union(([f"Literal[{literals}]"] if literals else []) + ["None"] * (None in values))


def _of_type(schema: Node, kind: str) -> str:
    if kind == "array":
        items = schema.get("items")
        return f"list[{'Any' if items is None else annotation(items)}]"
    if kind == "object":
        if schema.get("properties") is not None:
            raise schema.refuse("an object with properties needs a name under /components/schemas")
        values = schema.get("additionalProperties")
        return f"dict[str, {'Any' if values is None or isinstance(values.value, bool) else annotation(values)}]"
    if kind not in _SCALARS:
        raise schema.refuse(f"{kind} is not a type")
    return _SCALARS[kind]
