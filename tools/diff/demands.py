"""What a schema demands of a value, as a list of parts that all have to hold: references and `allOf` are flattened.

Nothing here compares. What cannot be read (a reference that leads nowhere, a pattern that no engine takes) is left in
its part for the comparison to see.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

import jsonschema_rs

from tools.diff.nodes import Node, Place, Pointer

# The kinds of JSON values, with numbers in two: those that `integer` takes and the others.
ATOMS: Final = frozenset({"null", "boolean", "object", "array", "string", "integer", "fraction"})
NUMBERS: Final = frozenset({"integer", "fraction"})
_OF_TYPE: Final[Mapping[str, frozenset[str]]] = {"number": NUMBERS} | {
    atom: frozenset({atom}) for atom in ATOMS - {"fraction"}
}
# Keyword -> which of them it speaks of, where not of all.
SPEAKS_OF: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"), NUMBERS),
    **dict.fromkeys(("minLength", "maxLength", "pattern"), frozenset({"string"})),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "prefixItems", "items"), frozenset({"array"})),
    **dict.fromkeys(("contains", "minContains", "maxContains", "unevaluatedItems"), frozenset({"array"})),
    **dict.fromkeys(("required", "dependentRequired", "dependentSchemas"), frozenset({"object"})),
    **dict.fromkeys(("minProperties", "maxProperties", "propertyNames"), frozenset({"object"})),
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties"), frozenset({"object"})),
    "unevaluatedProperties": frozenset({"object"}),
}
_BASE: Final = "http://{side}.invalid/{document}"


class Part(NamedTuple):
    """One schema object or `false`, and the way to it from the schema that was asked for, references left out."""

    node: Node
    route: Pointer


class Bound(NamedTuple):
    """The end of a range of numbers; `open` where the end itself is outside."""

    value: Fraction
    open: bool


@dataclass(frozen=True, eq=False)
class Demand:
    """All that a value has to be: each of `parts`, and of one of the kinds `only`.

    `split` names the keywords of which one way out of several has been chosen and added to the parts.
    """

    parts: tuple[Part, ...]
    only: frozenset[str] = ATOMS
    split: frozenset[tuple[tuple[str, Place], str]] = frozenset()
    _kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(*nodes: Node) -> Demand:
        """Return what all of `nodes` demand together."""
        parts = {part.node.key: part for node in nodes for part in _flat(node, (), frozenset())}
        return Demand(tuple(parts.values()))

    @property
    def key(self) -> Any:
        """What tells it from every other."""
        return self._once("key", lambda: (frozenset(part.node.key for part in self.parts), self.only, self.split))

    def also(self, *nodes: Node, split: tuple[tuple[str, Place], str] | None = None) -> Demand:
        """Return this demand together with `nodes`."""
        added = {part.node.key: part for part in self.parts}
        for part in Demand.of(*nodes).parts:
            added.setdefault(part.node.key, part)
        return Demand(tuple(added.values()), self.only, self.split | ({split} if split else set()))

    def within(self, atoms: frozenset[str]) -> Demand:
        """Return this demand of values of the kinds `atoms` alone."""
        return Demand(self.parts, self.only & atoms, self.split)

    def values(self, keyword: str) -> Iterator[Any]:
        """Yield the value of `keyword` in each part that has it."""
        for part in self.parts:
            if isinstance(part.node.value, dict) and keyword in part.node.value:
                yield part.node.value[keyword]

    def nodes(self, keyword: str) -> Iterator[tuple[Node, Node]]:
        """Yield each part that has `keyword`, and the schema or list that stands there."""
        for part in self.parts:
            found = part.node.at(keyword)
            if found is not None:
                yield part.node, found

    @property
    def refused(self) -> bool:
        """Whether a part is `false`."""
        return any(part.node.value is False for part in self.parts)

    @property
    def atoms(self) -> frozenset[str]:
        """The kinds of values that `type` leaves."""
        found: frozenset[str] = self._once("atoms", lambda: self.only.intersection(*map(atoms_of, self.values("type"))))
        return found

    def finite(self) -> list[Any] | None:
        """Return every value that meets the demand, where those are counted by `enum`, `const` or kind; else None."""
        found: list[Any] | None = self._once("finite", self._finite)
        return found

    def accepts(self, value: Any) -> bool | None:
        """Say whether `value` meets the demand; None where a part cannot be compiled."""
        if kind_of(value) not in self.only:
            return False
        verdicts = [_validator_takes(part.node, value) for part in self.parts]
        return None if None in verdicts else all(verdicts)

    def least(self, keyword: str) -> int:
        """Return the greatest of what a keyword such as `minLength` asks for at least."""
        return max((int(value) for value in self.values(keyword) if _is_number(value)), default=0)

    def most(self, keyword: str) -> int | None:
        """Return the least of what a keyword such as `maxLength` allows at most."""
        return min((int(value) for value in self.values(keyword) if _is_number(value)), default=None)

    def low(self) -> Bound | None:
        """Return where its numbers begin."""
        ends = [*self._bounds("minimum", False), *self._bounds("exclusiveMinimum", True)]
        return max(ends, default=None)

    def high(self) -> Bound | None:
        """Return where its numbers end."""
        ends = [*self._bounds("maximum", False), *self._bounds("exclusiveMaximum", True)]
        return min(ends, key=lambda end: (end.value, not end.open), default=None)

    def required(self) -> frozenset[str]:
        """Return the members that an object must have."""
        every = itertools.chain.from_iterable
        found: frozenset[str] = self._once("required", lambda: frozenset(every(self.values("required"))))
        return found

    def names(self) -> dict[str, Node]:
        """Return the members that it lists, those of its alternatives included, each with one schema of it."""
        found: dict[str, Node] = self._once("names", lambda: _names((part.node for part in self.parts), set()))
        return found

    def member(self, name: str) -> Demand:
        """Return what it demands of the member `name`."""
        found: Demand = self._once(
            ("member", name),
            lambda: Demand.of(*(node for part in self.parts for node, _ in members_of(part.node, name))),
        )
        return found

    def item(self, place: int) -> Demand:
        """Return what it demands of the item at `place`, counted from 0."""
        found = (item_of(part.node, place) for part in self.parts)
        return Demand.of(*(node for node, _ in filter(None, found)))

    def prefix(self) -> int:
        """Return how many items are told one by one."""
        return max((len(value) for value in self.values("prefixItems")), default=0)

    def _finite(self) -> list[Any] | None:
        counted: list[list[Any]] = sorted([*self.values("enum"), *([value] for value in self.values("const"))], key=len)
        if counted:
            candidates = counted[0]
        elif self.atoms <= {"null", "boolean"}:
            candidates = [None, False, True]
        else:
            return None
        verdicts = [self.accepts(value) for value in candidates]
        if None in verdicts:
            return None
        return [value for value, verdict in zip(candidates, verdicts, strict=True) if verdict]

    def _bounds(self, keyword: str, is_open: bool) -> Iterator[Bound]:
        return (Bound(exact(value), is_open) for value in self.values(keyword) if _is_number(value))

    def _once(self, name: Any, make: Callable[[], Any]) -> Any:
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]


def atoms_of(types: Any) -> frozenset[str]:
    """Return the kinds of values that the value of `type` takes."""
    named = types if isinstance(types, list) else [types]
    return frozenset().union(*(_OF_TYPE.get(name, frozenset()) for name in named if isinstance(name, str)))


def kind_of(value: Any) -> str:
    """Return the kind of a value."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if value == int(value) else "fraction"
    return {type(None): "null", str: "string", list: "array", dict: "object"}[type(value)]


def exact(number: float) -> Fraction:
    """Return a number of a document as it is written, 0.1 as a tenth."""
    return Fraction(str(number))


def members_of(part: Node, name: str) -> list[tuple[Node, Pointer]]:
    """Return the schemas in `part` that the member `name` has to meet, each with the way to it."""
    ways: list[Pointer] = [("properties", name)] if name in part.get("properties", {}) else []
    ways += [("patternProperties", pattern) for pattern in part.get("patternProperties", {}) if matches(pattern, name)]
    ways = ways or [("additionalProperties",)]
    found = ((part.at(*way), way) for way in ways)
    return [(node, way) for node, way in found if node is not None]


def item_of(part: Node, place: int) -> tuple[Node, Pointer] | None:
    """Return the schema in `part` that the item at `place` has to meet, with the way to it."""
    ways: tuple[Pointer, ...] = (("prefixItems", str(place)), ("items",))
    found = ((part.at(*way), way) for way in ways)
    return next(((node, way) for node, way in found if node is not None), None)


@lru_cache(maxsize=10_000)
def matches(pattern: str, text: str) -> bool:
    """Say whether `pattern` matches somewhere in `text`; a pattern that cannot be read matches nothing."""
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": pattern}).is_valid(text)
    except ValueError:
        return False


def _flat(node: Node, route: Pointer, seen: frozenset[Any]) -> Iterator[Part]:
    if node.key in seen or node.value is True or node.value == {}:
        return
    yield Part(node, route)
    if isinstance(node.value, dict):
        target = node.target()
        if target is not None:
            yield from _flat(target, route, seen | {node.key})
        for place, each in node.each("allOf"):
            yield from _flat(each, (*route, "allOf", place), seen | {node.key})


def _names(nodes: Iterable[Node], seen: set[Any]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for node in nodes:
        if node.key in seen:
            continue
        seen.add(node.key)
        for name, schema in node.each("properties"):
            if schema.value is not False:
                found.setdefault(name, schema)
        inner = [each for keyword in ("allOf", "anyOf", "oneOf", "dependentSchemas") for _, each in node.each(keyword)]
        inner += filter(None, (node.target(), node.at("then"), node.at("else")))
        for name, schema in _names(inner, seen).items():
            found.setdefault(name, schema)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _validator_takes(node: Node, value: Any) -> bool | None:
    validator = _validator(node)
    return None if validator is None else validator.is_valid(value)


def _validator(node: Node) -> jsonschema_rs.Draft202012Validator | None:
    kept = _validators(node.side)
    if node.key not in kept:
        kept[node.key] = _compiled(node)
    return kept[node.key]


@lru_cache(maxsize=4)
def _validators(_: Any) -> dict[Any, jsonschema_rs.Draft202012Validator | None]:
    return {}


def _compiled(node: Node) -> jsonschema_rs.Draft202012Validator | None:
    registry = _registry(node.side)
    try:
        schema = _absolute(node.value, _BASE.format(side=node.side.name, document=node.place.document))
        return jsonschema_rs.Draft202012Validator(schema, registry=registry, validate_formats=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return None


def _absent(address: str) -> Any:
    raise LookupError(address)


@lru_cache(maxsize=4)
def _registry(side: Any) -> jsonschema_rs.Registry:
    held = [(_BASE.format(side=side.name, document=name), root) for name, root in side.documents.items()]
    return jsonschema_rs.Registry(held, draft=jsonschema_rs.Draft202012, retriever=_absent)


def _absolute(value: Any, base: str) -> Any:
    """Let references to the document itself name it, since the schema is compiled outside of it."""
    if isinstance(value, list):
        return [_absolute(each, base) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: _absolute(each, base) for name, each in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str):
        made["$ref"] = base + reference if reference.startswith("#") else f"{base.rpartition('/')[0]}/{reference}"
    return made
