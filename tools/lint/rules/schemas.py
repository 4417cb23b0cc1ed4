"""Rules for schemas: what generators, validators and canonical JSON can hold to."""

from __future__ import annotations

from collections.abc import Iterator

from tools.lint.document import Fault, Pointer
from tools.lint.grammar import Node, Tree

_SCALARS = frozenset({"string", "integer", "boolean"})
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
        except ValueError as error:
            yield Fault(node.pointer, f"is no sound schema: {str(error).splitlines()[0]}")
            continue
        if "default" in node.value and not validator.is_valid(node.value["default"]):
            yield Fault((*node.pointer, "default"), "does not satisfy its schema")


def parameter(tree: Tree) -> Iterator[Fault]:
    """A parameter is one string, integer or boolean in the path, the query or a header."""
    for node in tree.every("parameter"):
        found = tree.child(node, "schema")
        if node.value["in"] not in _LOCATIONS or found is None or found.value.get("type") not in _SCALARS:
            yield Fault(node.pointer, "is not a string, integer or boolean in the path, the query or a header")


def header(tree: Tree) -> Iterator[Fault]:
    """A header has no `const` and no bare date format: client generators drop such an operation silently."""
    for node in tree.every("parameter", "header"):
        found = tree.child(node, "schema")
        if found is None or node.value.get("in", "header") != "header":
            continue
        if "const" in found.value:
            yield Fault(found.pointer, "has a const: write an enum of one value")
        if found.value.get("format") in {"date", "date-time"}:
            yield Fault(found.pointer, "has a bare date format: write allOf: [{format: date-time}]")


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


def item_schema(tree: Tree) -> Iterator[Fault]:
    """A stream says what each of its events is, and nothing else does."""
    for node in tree.every("media"):
        if (node.name == "text/event-stream") != ("x-item-schema" in node.value):
            yield Fault(node.pointer, "x-item-schema belongs to text/event-stream and to it alone")


def _is_named(pointer: Pointer) -> bool:
    """Tell whether the schema is a component, or the part of one or of a problem that only constrains."""
    while pointer[-1] in _CONSTRAINING or pointer[-2] == "allOf":
        pointer = pointer[:-1] if pointer[-1] in _CONSTRAINING else pointer[:-2]
    return pointer[:-1] == ("components", "schemas") or pointer[-2:] == ("application/problem+json", "schema")


def _unbounded(tree: Tree, node: Node, seen: set[Pointer]) -> Iterator[Fault]:
    if node.pointer in seen:
        return
    seen.add(node.pointer)
    kinds = node.value.get("type", [])
    numeric = {"integer", "number"} & set([kinds] if isinstance(kinds, str) else kinds)
    if numeric and not (any(word in node.value for word in _LOWER) and any(word in node.value for word in _UPPER)):
        yield Fault(node.pointer, "is a number without bounds in a signed body")
    for below in _parts(tree, node):
        yield from _unbounded(tree, below, seen)


def _parts(tree: Tree, node: Node) -> Iterator[Node]:
    for member in ("properties", "patternProperties", "allOf", "anyOf", "oneOf", "prefixItems"):
        yield from tree.children(node, member).values()
    for member in ("items", "additionalProperties"):
        below = tree.child(node, member)
        if below is not None:
            yield below
