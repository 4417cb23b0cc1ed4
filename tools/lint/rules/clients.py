"""Rules for what client generators stumble over: each was seen to cost a client an operation, an answer or a type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tools.lint.document import Fault, Pointer
from tools.lint.grammar import Tree

_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
# What tells of a part which values it takes. Of a choice within it nothing is asked: each would tell a fault anew.
_TELLING: Final = frozenset({"type", "enum", "const", "allOf", "anyOf", "oneOf"})
# What hey-api makes of an operation's name, beside what the statuses give.
_OPERATION_TYPES: Final = ("data", "error", "errors", "response", "responses")


def distinct_name(tree: Tree) -> Iterator[Fault]:
    """Schemas, members of one and parameters of an operation differ by more than case and punctuation.

    openapi-python-client drops what needs the second schema of a name, and writes the second member over the first.
    """
    yield from _equals((("components", "schemas", name), name) for name in _components(tree))
    for node in tree.every("schema"):
        yield from _equals(((*node.pointer, "properties", name), name) for name in node.value.get("properties", {}))
    for node in tree.every("operation"):
        yield from _equals((each.pointer, each.value["in"] + each.value["name"]) for each in tree.parameters(node))


def derived_name(tree: Tree) -> Iterator[Fault]:
    """No schema has, and no two enums within schemas get, the name that a generator makes of other names.

    openapi-python-client names an enum after its schema and member, and an answer after its operation and status;
    where that name is taken it drops what needs it.
    """
    schemas = {_folded(name): name for name in _components(tree)}
    enums = list(_enums(tree))
    counted = Counter(name for name, _ in enums)
    for name, pointer in enums:
        if name in schemas or counted[name] > 1:
            yield Fault(pointer, f"would have the name of {schemas.get(name, 'another enum')}: make it a component")
    for operation in tree.every("operation"):
        own = _folded(str(operation.value.get("operationId")))
        statuses = [f"response{status}" for status in operation.value.get("responses", {})]
        for name in (own + each for each in (*_OPERATION_TYPES, *statuses)):
            if name in schemas:
                yield Fault(
                    ("components", "schemas", schemas[name]), f"is a name that {operation.value['operationId']} needs"
                )


def enum_value(tree: Tree) -> Iterator[Fault]:
    """The values of an enum are of one type, null aside, and texts among them differ by more than punctuation and case.

    openapi-python-client drops what needs an enum of several types, and ends where two values have one name.
    """
    for node in tree.every("schema"):
        values = [value for value in node.value.get("enum", []) if value is not None]
        if len({type(value) for value in values}) > 1:
            yield Fault((*node.pointer, "enum"), "has values of several types")
        names = Counter(_folded(value) for value in values if isinstance(value, str) and value[:1].isalpha())
        if any(count > 1 for count in names.values()):
            yield Fault((*node.pointer, "enum"), "has values that differ by case and punctuation alone")


def typed_part(tree: Tree) -> Iterator[Fault]:
    """What stands in the allOf of a text, number or boolean says its type, too: else hey-api makes `unknown` of it."""
    for node in tree.every("schema"):
        kinds = node.value.get("type", [])
        if _SCALARS & ({kinds} if isinstance(kinds, str) else set(kinds)):
            for part in tree.children(node, "allOf").values():
                if not _TELLING & part.value.keys():
                    yield Fault(part.pointer, "has no type")


def client_media(tree: Tree) -> Iterator[Fault]:
    """A body can be sent as JSON, and an answer is JSON or text: of other media types alone generators drop it."""
    for node in tree.every("body"):
        if "application/json" not in node.value.get("content", {}):
            yield Fault(node.pointer, "does not take application/json")
    for node in tree.every("response"):
        kinds = node.value.get("content", {})
        if kinds and not any(
            kind == "application/json" or kind.endswith("+json") or kind.startswith("text/") for kind in kinds
        ):
            yield Fault(node.pointer, "has neither JSON nor text")


def _components(tree: Tree) -> list[str]:
    return list(tree.root.get("components", {}).get("schemas", {}))


def _equals(named: Iterator[tuple[Pointer, str]]) -> Iterator[Fault]:
    seen: set[str] = set()
    for pointer, name in named:
        if _folded(name) in seen:
            yield Fault(pointer, "differs from another name by case and punctuation alone")
        seen.add(_folded(name))


def _enums(tree: Tree) -> Iterator[tuple[str, Pointer]]:
    """Yield the enums of members that have no name of their own, each with the name that a generator gives it."""
    for node in tree.every("schema"):
        place = node.pointer
        of_member = place[:2] == ("components", "schemas") and place[3:4] == ("properties",)
        if "enum" in node.value and of_member and place[5:] in {(), ("items",)}:
            yield _folded(f"{place[2]}{place[4]}{'item' if place[5:] else ''}"), place


def _folded(name: str) -> str:
    return "".join(character for character in name if character.isalnum()).casefold()
