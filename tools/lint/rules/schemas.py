"""Rules for schemas: what generators, validators and canonical JSON can hold to."""

from __future__ import annotations

from collections.abc import Iterator

import jsonschema_rs

from tools.lint.document import Fault, Pointer
from tools.lint.grammar import SCHEMA_KEYWORDS, STREAM, Node, Tree

_SCALARS = ("string", "integer", "boolean")
_DATES = frozenset({"date", "date-time", "time"})
# What tells which values a schema takes, where `type` does not.
_SHAPING = frozenset({"const", "enum", "allOf", "anyOf", "oneOf"})
_LOCATIONS = frozenset({"path", "query", "header"})
# Under these a schema only constrains what another one has named.
_CONSTRAINING = frozenset({"if", "then", "else", "not"})
_LOWER = ("minimum", "exclusiveMinimum")
_UPPER = ("maximum", "exclusiveMaximum")


def schema(tree: Tree) -> Iterator[Fault]:
    """Every schema compiles, patterns included, and admits its own default."""
    for node in tree.every("schema"):
        try:
            validator = tree.validator(node)
        except jsonschema_rs.ValidationError as error:
            # The path is one from the root of the document, since the fault may lie behind a reference.
            yield Fault(tuple(map(str, error.instance_path)), f"is no sound schema: {error.message}")
            continue
        if "default" in node.value and not validator.is_valid(node.value["default"]):
            yield Fault((*node.pointer, "default"), "does not satisfy its schema")


def keyword(tree: Tree) -> Iterator[Fault]:
    """A schema has known keywords only: a misspelled one would hold nothing."""
    for node in tree.every("schema"):
        for word in node.value:
            if word not in SCHEMA_KEYWORDS and not word.startswith(("x-", "$")):
                yield Fault((*node.pointer, word), "is no keyword of a schema")


def parameter(tree: Tree) -> Iterator[Fault]:
    """A parameter is one string, integer or boolean in the path, the query or a header."""
    for node in tree.every("parameter"):
        found = tree.child(node, "schema")
        if node.value["in"] not in _LOCATIONS or found is None or found.value.get("type") not in _SCALARS:
            yield Fault(node.pointer, "is not a string, integer or boolean in the path, the query or a header")


def header(tree: Tree) -> Iterator[Fault]:
    """A header has no `const` and no bare date format, on which client generators drop the operation silently.

    Nor has a parameter in a header a bare `uuid`: openapi-python-client sends the UUID itself, which httpx refuses.
    """
    for node in tree.every("parameter", "header"):
        found = tree.child(node, "schema")
        if found is None or node.value.get("in", "header") != "header":
            continue
        if "const" in found.value:
            yield Fault(found.pointer, "has a const: write an enum of one value")
        bare = found.value.get("format")
        if bare in _DATES or (bare == "uuid" and node.kind == "parameter"):
            yield Fault(found.pointer, f"has a bare format: write allOf: [{{type: string, format: {bare}}}]")


def object_name(tree: Tree) -> Iterator[Fault]:
    """An object with members is a component: else each generator makes a name of its own for it."""
    for node in tree.every("schema"):
        if "properties" in node.value and not _is_named(node.pointer):
            yield Fault(node.pointer, "is an object without a name: make it a component")


def signed_number(tree: Tree) -> Iterator[Fault]:
    """A number in a signed body has both bounds, or canonical JSON could not hold it; `data` is the sender's affair."""
    for body in tree.every("body"):
        if body.value.get("x-canonical-json"):
            for media in tree.children(body, "content").values():
                root = tree.child(media, "schema")
                data = None if root is None else tree.child(root, "properties", "data")
                seen = set() if data is None else {data.pointer}
                yield from () if root is None else _unbounded(tree, root, seen)


def media_schema(tree: Tree) -> Iterator[Fault]:
    """A body, taken or given, has a schema."""
    for node in tree.every("media"):
        if "schema" not in node.value:
            yield Fault(node.pointer, "has no schema")


def item_schema(tree: Tree) -> Iterator[Fault]:
    """A stream is text to generic tools, and says what each of its events is; nothing else does."""
    for node in tree.every("media"):
        if (node.name == STREAM) != ("x-item-schema" in node.value):
            yield Fault(node.pointer, f"x-item-schema belongs to {STREAM} and to it alone")
        found = tree.child(node, "schema")
        if node.name == STREAM and found is not None and found.value.get("type") != "string":
            yield Fault(found.pointer, "is not of type string, as a stream is")


def _is_named(pointer: Pointer) -> bool:
    """Tell whether the schema is a component, or the part of one or of a problem that only constrains."""
    while pointer[-1] in _CONSTRAINING or pointer[-2] == "allOf":
        pointer = pointer[:-1] if pointer[-1] in _CONSTRAINING else pointer[:-2]
    return pointer[:-1] == ("components", "schemas") or pointer[-2:] == ("application/problem+json", "schema")


def _unbounded(tree: Tree, node: Node, seen: set[Pointer], *, alone: bool = True) -> Iterator[Fault]:
    if node.pointer in seen:
        return
    seen.add(node.pointer)
    kinds = _kinds(node)
    bounded = any(word in node.value for word in _LOWER) and any(word in node.value for word in _UPPER)
    if kinds & {"integer", "number"} and not bounded:
        yield Fault(node.pointer, "is a number without bounds in a signed body")
    if alone and not kinds and not _SHAPING & node.value.keys():
        yield Fault(node.pointer, "may be a number without bounds in a signed body: it has no type")
    if alone and "object" in kinds and node.value.get("additionalProperties", True) is True:
        yield Fault(node.pointer, "may hold numbers without bounds in a signed body: it is open")
    for member, below in _parts(tree, node):
        yield from _unbounded(tree, below, seen, alone=member != "allOf")


def _kinds(node: Node) -> set[str]:
    kinds = node.value.get("type", [])
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _parts(tree: Tree, node: Node) -> Iterator[tuple[str, Node]]:
    for member in ("properties", "patternProperties", "allOf", "anyOf", "oneOf", "prefixItems"):
        yield from ((member, below) for below in tree.children(node, member).values())
    for member in ("items", "additionalProperties"):
        below = tree.child(node, member)
        if below is not None:
            yield member, below
