"""Goes over everything that differs between two documents as they are written, and judges what no comparison told.

So no difference is passed over: it is told where it was compared, or here, as words for people, as another way to say
the same, or as something that this program does not understand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from tools.diff.nodes import Node, Pointer
from tools.diff.sameness import MEANINGS, WORDS
from tools.diff.verdicts import Change, Verdict
from tools.lint.grammar import METHODS, SCHEMA_KEYWORDS

# What holds names that the document's author has chosen: the token below is no keyword.
_NAMING: Final = frozenset(
    (
        *("properties", "patternProperties", "dependentSchemas", "dependentRequired", "$defs"),
        *("paths", "responses", "content", "headers", "examples", "links", "x-problems", "webhooks", "callbacks"),
        *("schemas", "parameters", "requestBodies", "securitySchemes", "pathItems", "encoding", "mapping"),
    )
)
_WORDS: Final = WORDS | {"info", "tags", "summary", "links", "x-principal", "openapi"}
_VALUES: Final = frozenset({"const", "enum", "default"})
_CHOOSING: Final = frozenset({"anyOf", "oneOf", "if", "then", "else", "dependentSchemas"})
_COMPARED: Final = frozenset(
    (
        *METHODS,
        *SCHEMA_KEYWORDS,
        *("$ref", "paths", "components", "requestBody", "responses", "content", "headers", "schema", "parameters"),
        *("required", "in", "name", "style", "explode", "allowReserved", "allowEmptyValue", "encoding"),
        *("operationId", "security", "servers", "callbacks", "webhooks", "x-listeners", "x-body-limit"),
        *("x-canonical-json", "x-item-schema", "x-problems", "status", "headers", "members"),
        *("schemas", "requestBodies", "securitySchemes", "pathItems", "scheme", "bearerFormat", "flows"),
    )
)


_SHOWN: Final = frozenset({"example", "examples", "const", "enum", "default"})
_NOT_GIVEN: Final = "It refers to what is not among the documents, and is not compared."
# What stands for something that one side lacks: null is a value of JSON.
_ABSENT: Final = object()


class Difference(NamedTuple):
    """What is written otherwise; `removed` where nothing is there now."""

    pointer: Pointer
    removed: bool


def remainder(old: Node, new: Node, told: Iterable[Change]) -> Iterator[Change]:
    """Yield a change for each difference that stands neither in, around nor at a place that `told` names."""
    places = {change.place.pointer for change in told if change.place.document == new.place.document}
    used = [_used(old), _used(new)]
    lost = [{node.place.pointer: node.elsewhere for node in _lost(side, ())} for side in (old, new)]
    for pointer, elsewhere in lost[1].items():
        if elsewhere and not _met(pointer, places):
            yield Change(Verdict.RISKY, "both", new.place.below(*pointer, "$ref"), _NOT_GIVEN)
            places.add(pointer)
    for difference in _differences(old.value, new.value, ()):
        pointer = difference.pointer
        # Paths come and go with their operations, all of which are told; the version is told by itself.
        if pointer == ("info", "version") or (pointer[0] == "paths" and len(pointer) <= 2):
            continue
        if not _met(pointer, places):
            if any((*at, "$ref")[: len(pointer)] == pointer for each in lost for at in each):
                yield Change(Verdict.RISKY, "both", new.place.below(*pointer), _NOT_GIVEN)
                continue
            verdict, message = _judged(difference, any(pointer[:3] in each for each in used))
            yield Change(verdict, "both", new.place.below(*pointer), message)


def _met(pointer: Pointer, places: Iterable[Pointer]) -> bool:
    return any(pointer[: len(place)] == place[: len(pointer)] for place in places)


def _lost(node: Node, way: Pointer) -> Iterator[Node]:
    """Yield what refers to something that is not in the documents; examples are no parts of them."""
    if isinstance(node.get("$ref"), str) and node.target() is None:
        yield node
    for inner in _inside(node):
        name = inner.place.pointer[-1]
        if name in _SHOWN and not (way and way[-1] in _NAMING):
            continue
        yield from _lost(inner, (*way, name))


def _differences(old: Any, new: Any, pointer: Pointer) -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict) and not _is_value(pointer):
        for name in {**old, **new}:
            below = (*pointer, name)
            # Components are told one by one, also where all of a kind come or go.
            if len(below) < 3 and below[0] == "components":
                yield from _differences(old.get(name, {}), new.get(name, {}), below)
            else:
                yield from _difference(old.get(name, _ABSENT), new.get(name, _ABSENT), below)
    elif isinstance(old, list) and isinstance(new, list) and _has_objects(old, new):
        before, after = _named(old), _named(new)
        if [name for name in before if name in after] != [name for name in after if name in before]:
            yield Difference(pointer, removed=False)
        for name in {**before, **after}:
            place, _ = after.get(name) or before[name]
            one, other = (side.get(name, ("", _ABSENT))[1] for side in (before, after))
            yield from _difference(one, other, (*pointer, place))
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield Difference(pointer, removed=False)


def _difference(old: Any, new: Any, pointer: Pointer) -> Iterator[Difference]:
    if old is _ABSENT or new is _ABSENT:
        yield Difference(pointer, new is _ABSENT)
    else:
        yield from _differences(old, new, pointer)


def _has_objects(*lists: list[Any]) -> bool:
    return all(isinstance(each, dict) for held in lists for each in held)


def _named(held: list[dict[str, Any]]) -> dict[str, tuple[str, Any]]:
    """Return the objects of a list with their places, by what tells them apart."""
    return {_identity(each, str(place)): (str(place), each) for place, each in enumerate(held)}


def _identity(each: dict[str, Any], place: str) -> str:
    """Return a reference, the name of a parameter, or the place."""
    if "$ref" in each:
        return str(each["$ref"])
    return f"{each['in']} {each['name']}" if "in" in each and "name" in each else place


def _is_value(pointer: Pointer) -> bool:
    """Say whether a value of clients' stands there, and no part of the document."""
    return bool(pointer) and pointer[-1] in _VALUES and _keywords(pointer) == (False, pointer[-1])


def _judged(difference: Difference, used: bool) -> tuple[Verdict, str]:
    words, keyword = _keywords(difference.pointer)
    if words:
        return Verdict.SAFE, "What it tells people differs."
    if difference.pointer[0] == "components" and not used:
        return Verdict.SAFE, "No operation uses it."
    if len(difference.pointer) == 3 and difference.pointer[0] == "components":
        gone = "gone" if difference.removed else "new"
        return Verdict.SAFE, f"The component is {gone}; what that changes is told where it is used."
    if keyword == "x-problem":
        return Verdict.RISKY, "A fault here is answered by another code."
    if keyword == "properties" and difference.removed and _CHOOSING & set(difference.pointer):
        # Comparisons look at all members of an object together, and not at those of each way that it may have.
        return Verdict.RISKY, "The member is listed no longer in one way of several."
    if keyword in MEANINGS:
        return Verdict.RISKY, "Values may mean something else."
    if keyword not in _COMPARED:
        return Verdict.RISKY, f"`{keyword}` is not understood, so that what it changes is not known."
    return Verdict.SAFE, "It says the same in another way, but for what is told elsewhere."


def _keywords(pointer: Pointer) -> tuple[bool, str]:
    """Say whether `pointer` leads into words for people, and which keyword it comes to last."""
    named, keyword = False, ""
    for name in pointer:
        if named or name.isdecimal():
            named = False
            continue
        keyword = name
        if name in _WORDS:
            return True, name
        named = name in _NAMING
    return False, keyword


def _used(root: Node) -> set[Pointer]:
    """Return the components that operations reach."""
    found: set[Pointer] = set()
    waiting = [part for name in ("paths", "webhooks") for part in [root.at(name)] if part is not None]
    while waiting:
        for target in _targets(waiting.pop()):
            component = target.place.pointer[:3]
            if target.place.document == root.place.document and component not in found:
                found.add(component)
                waiting.append(target)
    return found | {("components", "securitySchemes", name) for name, _ in _schemes(root)}


def _schemes(root: Node) -> Iterator[tuple[str, Node]]:
    components = root.at("components")
    return iter(()) if components is None else components.each("securitySchemes")


def _targets(node: Node) -> Iterator[Node]:
    target = node.target()
    if target is not None:
        yield target
    for inner in _inside(node):
        yield from _targets(inner)


def _inside(node: Node) -> Iterator[Node]:
    held = node.value if isinstance(node.value, dict | list) else ()
    for name in held if isinstance(held, dict) else map(str, range(len(held))):
        inner = node.at(name)
        if inner is not None:
            yield inner
