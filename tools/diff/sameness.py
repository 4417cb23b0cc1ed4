"""Says whether two schemas say the same in the same way, references followed and words for people left out."""

from __future__ import annotations

from typing import Any, Final

from tools.diff.nodes import Node

# What tells people about a schema and holds no value to anything.
WORDS: Final = frozenset(
    {"title", "description", "example", "examples", "deprecated", "externalDocs", "$comment", "xml"}
)
# What no validator asserts and yet changes what a value means, or what is sent where there is none.
MEANINGS: Final = frozenset(
    {"default", "discriminator", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema"}
)
# Keywords that hold a schema or a list of schemas, and those that hold schemas by name.
_HOLDING: Final = frozenset(
    (
        *("allOf", "anyOf", "oneOf", "prefixItems", "if", "then", "else", "not", "items", "contains"),
        *("additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
    )
)
_HOLDING_BY_NAME: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})


def alike(first: Node, second: Node) -> bool:
    """Say whether two schemas say the same; in a circle of references they do unless something in it differs."""
    return _alike(first, second, set())


def _alike(first: Node, second: Node, seen: set[Any]) -> bool:
    one, other = (each.resolved() if _bare(each) else each for each in (first, second))
    pair = (one.key, other.key)
    if pair in seen:
        return True
    seen.add(pair)
    if isinstance(one.value, list) and isinstance(other.value, list):
        tokens = map(str, range(len(one.value)))
        return len(one.value) == len(other.value) and all(_alike(*_both(one, other, each), seen) for each in tokens)
    if not (isinstance(one.value, dict) and isinstance(other.value, dict)):
        return equal(one.value, other.value)
    names = _telling(one)
    return names == _telling(other) and all(_alike_at(one, other, name, seen) for name in names)


def _alike_at(first: Node, second: Node, name: str, seen: set[Any]) -> bool:
    one, other = _both(first, second, name)
    if name == "$ref":
        there, here = first.target(), second.target()
        if there is None and here is None:
            return equal(one.value, other.value) and not second.elsewhere
        return there is not None and here is not None and _alike(there, here, seen)
    if name.startswith("$dynamic"):
        return False
    if name in _HOLDING:
        return _alike(one, other, seen)
    if name in _HOLDING_BY_NAME and isinstance(one.value, dict) and isinstance(other.value, dict):
        return one.value.keys() == other.value.keys() and all(
            _alike(*_both(one, other, each), seen) for each in one.value
        )
    if name in {"required", "type"} and isinstance(one.value, list) and isinstance(other.value, list):
        return set(map(str, one.value)) == set(map(str, other.value))
    return equal(one.value, other.value)


def _both(first: Node, second: Node, token: str) -> tuple[Node, Node]:
    one, other = first.at(token), second.at(token)
    assert one is not None and other is not None  # noqa: S101, PT018 - both are looked up by names that both have.
    return one, other


def _bare(node: Node) -> bool:
    return isinstance(node.value, dict) and "$ref" in node.value and not _telling(node) - {"$ref"}


def _telling(node: Node) -> set[str]:
    return {name for name in node.value if name not in WORDS and not name.startswith("x-")}


def equal(one: Any, other: Any) -> bool:
    """Compare as JSON Schema does: 1 is 1.0, and neither is true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
