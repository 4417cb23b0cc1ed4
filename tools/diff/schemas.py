"""Decides whether all that one schema takes is taken by another, keyword by keyword, and names the gaps.

An instance meets a schema where it meets each of its keywords. So for each keyword of the second schema the comparison
looks for a reason in the first one that implies it. Where it finds none there is a gap; where the first schema is a
choice, each way is tried on its own. What it cannot decide is a gap of its own kind: silence is always a proof. The
proofs may use each other in a circle (schemas that refer to themselves), as each step goes down into a finite value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.diff import assertions
from tools.diff.assertions import Rule
from tools.diff.demands import ATOMS, NUMBERS, SPEAKS_OF, Demand, Part, item_of, members_of
from tools.diff.gaps import Gap, Kind, contained, spelled
from tools.diff.nodes import Node, Place, Pointer
from tools.diff.sameness import MEANINGS, WORDS, alike, equal

# Names, and what is looked at through another keyword or where a reference leads.
_PASSED: Final = frozenset({"$ref", "allOf", "$defs", "then", "else", "minContains", "maxContains"})
_CHOICES: Final = frozenset({"anyOf", "oneOf", "if", "not"})
_MOST_STEPS: Final = 10_000
_DEEPEST: Final = 150


class Comparison:
    """Compares schemas of two sides, and remembers what it has found."""

    def __init__(self) -> None:
        self._found: dict[Any, tuple[Gap, ...]] = {}
        self._active: dict[Any, int] = {}
        self._level = 0
        self._leaned_on: set[Any] = set()
        self._emptying: set[Any] = set()
        self._alike: dict[Any, bool] = {}
        self._steps = 0
        self._keywords: Final[Mapping[str, Rule]] = {
            **assertions.RULES,
            **dict.fromkeys(("prefixItems", "items"), self._items),
            "contains": self._contains,
            "dependentRequired": self._dependent_required,
            "dependentSchemas": self._dependent_schemas,
            "propertyNames": self._property_names,
            **dict.fromkeys(("properties", "patternProperties", "additionalProperties"), self._members),
            "anyOf": self._any_of,
            "oneOf": self._one_of,
            "if": self._if,
            "not": self._not,
        }

    def compare(self, first: Node, second: Node, trail: Place) -> tuple[Gap, ...]:
        """Return the gaps between two schemas; `trail` is where they stand in the document of the second."""
        self._steps = 0
        return tuple(dict.fromkeys(self._whole(Demand.of(first), Demand.of(second), trail)))

    def _whole(self, first: Demand, second: Demand, trail: Place) -> Iterator[Gap]:
        """Yield the gaps between all that two sides say of one value: one that a value holds, or the outermost."""
        self._level += 1
        try:
            if not self._empty(first):
                yield from self._unread(first, second, trail)
            yield from self._gaps(first, second, trail)
        finally:
            self._level -= 1

    def _gaps(self, first: Demand, second: Demand, trail: Place) -> tuple[Gap, ...]:
        pair = (first.key, second.key)
        key = (*pair, trail)
        if key in self._found:
            return self._found[key]
        if pair in self._active and self._active[pair] < self._level:
            self._leaned_on.add(pair)
            return ()
        self._steps += 1
        if pair in self._active or self._steps > _MOST_STEPS or self._level > _DEEPEST:
            return (Gap(Kind.UNSURE, trail, "what is too involved to compare"),)
        outer, self._leaned_on = self._leaned_on, set()
        self._active[pair] = self._level
        found = tuple(dict.fromkeys(self._search(first, second, trail)))
        del self._active[pair]
        leaned = self._leaned_on - {pair}
        # What rests on a proof that is still under way is not kept: it might fail.
        if not leaned and self._steps <= _MOST_STEPS:
            self._found[key] = found
        self._leaned_on = outer | leaned
        return found

    def _holds(self, first: Demand, second: Demand, trail: Place) -> bool:
        return contained(self._gaps(first, second, trail))

    def _search(self, first: Demand, second: Demand, trail: Place) -> Iterator[Gap]:
        yield from self._meanings(first, second, trail)
        known = {part.node.key for part in first.parts}
        rest = [
            part
            for part in second.parts
            if part.node.key not in known and not any(self._same(each.node, part.node) for each in first.parts)
        ]
        if self._empty(first) or self._counted(first, second):
            return
        for part in rest:
            yield from self._part(first, part, _location(first, part, trail))

    def _counted(self, first: Demand, second: Demand) -> bool:
        values = first.finite()
        return values is not None and all(second.accepts(value) for value in values)

    def _meanings(self, first: Demand, second: Demand, trail: Place) -> Iterator[Gap]:
        for part in second.parts:
            for keyword in sorted(MEANINGS & _keys(part.node)):
                if not any(equal(value, part.node.value[keyword]) for value in first.values(keyword)):
                    place = _location(first, part, trail).below(keyword)
                    yield Gap(Kind.MEANING, place, f"`{keyword}`")

    def _unread(self, first: Demand, second: Demand, trail: Place) -> Iterator[Gap]:
        if not second.parts or "object" not in first.atoms & second.atoms:
            return
        for name, schema in first.names().items():
            if name in second.names() or self._empty(first.member(name)) or self._empty(second.member(name)):
                continue
            owner = Place(schema.place.document, schema.place.pointer[:-2])
            shared = any(part.node.place == owner for part in second.parts)
            yield Gap(Kind.UNREAD, (owner if shared else trail).below("properties", name), _member(name))

    def _part(self, first: Demand, part: Part, here: Place) -> Iterator[Gap]:
        if part.node.value is False:
            yield Gap(Kind.VALUES, here, "anything at all")
            return
        if not isinstance(part.node.value, dict):
            yield Gap(Kind.UNSURE, here, "what is no schema")
            return
        keywords = _keys(part.node)
        if "$ref" in keywords and part.node.target() is None:
            yield Gap(Kind.UNSURE, here.below("$ref"), "what a reference names that leads nowhere")
        done: set[Rule] = set()
        for keyword in part.node.value:
            rule = self._keywords.get(keyword)
            if rule is None:
                yield from _unknown(keyword, first, here)
            elif rule not in done and SPEAKS_OF.get(keyword, ATOMS) & first.atoms:
                # Keywords of one rule speak of each other, as `items` does of `prefixItems`; bounds do not.
                if rule in {self._items, self._members}:
                    done.add(rule)
                yield from self._asserted(rule, keyword, first, part, here)

    def _asserted(self, rule: Rule, keyword: str, first: Demand, part: Part, here: Place) -> tuple[Gap, ...]:
        found = tuple(rule(first, part.node, keyword, here))
        if contained(found) or self._counted(first, Demand((part,))):
            return found if contained(found) else ()
        for ways in self._choices(first, keyword):
            open_ways = [way for way in ways if not self._empty(way)]
            self._steps += 1
            if self._steps > _MOST_STEPS:
                break
            found_in = [self._asserted(rule, keyword, way, part, here) for way in open_ways]
            if all(map(contained, found_in)):
                return tuple(gap for gap in found if gap.kind in {Kind.FREE, Kind.GONE})
        return found

    def _choices(self, first: Demand, keyword: str) -> Iterator[list[Demand]]:
        for choice in ("anyOf", "oneOf"):
            for part, _ in first.nodes(choice):
                mark = (part.key, choice)
                if mark not in first.split:
                    yield [first.also(way, split=mark) for _, way in part.each(choice)]
                    return
        for part, condition in first.nodes("if"):
            mark = (part.key, "if")
            if mark not in first.split:
                then, otherwise = (list(filter(None, [part.at(word)])) for word in ("then", "else"))
                yield [
                    first.also(condition, *then, split=mark),
                    first.also(_negated(condition), *otherwise, split=mark),
                ]
                return
        if keyword in _CHOICES and len(first.atoms) > 1:
            yield [first.within(frozenset({atom})) for atom in sorted(first.atoms)]

    def _empty(self, demand: Demand) -> bool:
        """Say whether it is certain that no value meets `demand`."""
        if demand.refused or not demand.atoms:
            return True
        if demand.key in self._emptying or self._steps > _MOST_STEPS or len(self._emptying) > _DEEPEST:
            return False
        self._steps += 1
        self._emptying.add(demand.key)
        try:
            return demand.finite() == [] or self._impossible(demand)
        finally:
            self._emptying.discard(demand.key)

    def _impossible(self, demand: Demand) -> bool:
        if all(self._no_values_of(demand, atom) for atom in demand.atoms):
            return True
        if any(self._holds(demand, Demand.of(inner), part.place) for part, inner in demand.nodes("not")):
            return True
        ways = next(self._choices(demand, ""), None)
        return ways is not None and all(map(self._empty, ways))

    def _no_values_of(self, demand: Demand, atom: str) -> bool:
        if atom == "object":
            most = demand.most("maxProperties")
            return (most is not None and max(demand.least("minProperties"), len(demand.required())) > most) or any(
                self._empty(demand.member(name)) for name in demand.required()
            )
        if atom in NUMBERS:
            low, high = demand.low(), demand.high()
            return low is not None and high is not None and low.value > high.value
        counts = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}
        if atom in counts:
            least, most = demand.least(counts[atom][0]), demand.most(counts[atom][1])
            return most is not None and least > most
        return False

    def _same(self, first: Node, second: Node) -> bool:
        """Say whether two schemas say the same, words for people aside."""
        key = (first.key, second.key)
        if key not in self._alike:
            self._alike[key] = alike(first, second)
        return self._alike[key]

    def _items(self, first: Demand, part: Node, _: str, here: Place) -> Iterator[Gap]:
        longest = first.most("maxItems")
        told = max(first.prefix(), len(part.get("prefixItems", [])))
        # The last place stands for all that come after those that are told one by one.
        for place in range(told + 1 if longest is None else min(told + 1, longest)):
            wanted = item_of(part, place)
            if wanted is not None:
                node, way = wanted
                if node.value is False and not self._empty(first.item(place)):
                    yield Gap(Kind.VALUES, here.below(*way), f"arrays of more than {place} items")
                    return
                yield from self._whole(first.item(place), Demand.of(node), here.below(*way))

    def _contains(self, first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
        wanted = part.at(keyword)
        if wanted is None:
            return
        least, most = part.get("minContains", 1), part.get("maxContains")
        found = list(first.nodes(keyword))
        enough = least == 0 or any(
            each.get("minContains", 1) >= least and self._holds(Demand.of(inner), Demand.of(wanted), here)
            for each, inner in found
        )
        few = most is None or any(
            each.get("maxContains", most + 1) <= most and self._holds(Demand.of(wanted), Demand.of(inner), here)
            for each, inner in found
        )
        if not (enough and few):
            kind = Kind.UNSURE if found else Kind.VALUES
            yield Gap(kind, here.below(keyword), "arrays without the items that `contains` asks for")

    def _dependent_required(self, first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
        for name, wanted in part.value[keyword].items():
            if self._empty(first.member(name)):
                continue
            held = first.required().union(*(value.get(name, ()) for value in first.values(keyword)))
            left = [each for each in wanted if each not in held]
            if left:
                what = f"objects with {_member(name)} and without {spelled(left)}"
                yield Gap(Kind.VALUES, here.below(keyword, name), what)

    def _dependent_schemas(self, first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
        for name, schema in part.each(keyword):
            with_it = first.also(schema.made("required", {"type": "object", "required": [name]}))
            for each, inner in first.nodes(keyword):
                held = inner.at(name)
                if held is not None and each is not part:
                    with_it = with_it.also(held)
            yield from self._gaps(with_it, Demand.of(schema), here.below(keyword, name))

    def _property_names(self, first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
        wanted = Demand.of(*filter(None, [part.at(keyword)]))
        held = Demand.of(*(inner for _, inner in first.nodes(keyword)))
        if self._holds(held.within(frozenset({"string"})), wanted, here):
            return
        listed = set(first.names()) | first.required()
        closed = self._empty(Demand.of(*_strangers(first, None)))
        if closed and not any(first.values("patternProperties")) and all(map(wanted.accepts, listed)):
            return
        kind = Kind.UNSURE if held.parts else Kind.VALUES
        yield Gap(kind, here.below(keyword), "objects with other names of members")

    def _members(self, first: Demand, part: Node, _: str, here: Place) -> Iterator[Gap]:
        listed = {name for name, schema in part.each("properties") if schema.value is not False}
        for name in {**first.names(), **dict.fromkeys(part.get("properties", {}))}:
            yield from self._named(first, part, name, name in listed, here)
        for pattern, wanted in part.each("patternProperties"):
            way = here.below("patternProperties", pattern)
            yield from self._strange(first, pattern, wanted, way)
        others = part.at("additionalProperties")
        if others is not None:
            yield from self._strange(first, None, others, here.below("additionalProperties"))
            for pattern in {each for value in first.values("patternProperties") for each in value}:
                if pattern not in part.get("patternProperties", {}):
                    yield from self._strange(first, pattern, others, here.below("additionalProperties"))

    def _named(self, first: Demand, part: Node, name: str, listed: bool, here: Place) -> Iterator[Gap]:
        held = first.member(name)
        known = name in first.names()
        if self._empty(held):
            if listed and not known:
                yield Gap(Kind.GONE, here.below("properties", name), _member(name))
            return
        for wanted, way in members_of(part, name):
            if wanted.value is False:
                place = here.below("properties", name) if known else here.below(*way)
                yield Gap(Kind.BEYOND if known else Kind.VALUES, place, _member(name))
                continue
            found = list(self._whole(held, Demand.of(wanted), here.below(*way)))
            if known or not listed:
                yield from found
            else:
                kind = Kind.FREE if contained(found) else Kind.CHECKED
                yield Gap(kind, here.below("properties", name), _member(name))

    def _strange(self, first: Demand, pattern: str | None, wanted: Node, here: Place) -> Iterator[Gap]:
        held = Demand.of(*_strangers(first, pattern))
        if self._empty(held):
            return
        what = "members that are not listed" if pattern is None else f"members whose name matches `{pattern}`"
        if wanted.value is False:
            yield Gap(Kind.UNLISTED, here, what)
            return
        found = list(self._whole(held, Demand.of(wanted), here))
        if held.parts:
            yield from found
        elif not contained(found):
            yield Gap(Kind.UNLISTED, here, f"any {what}")

    def _any_of(self, first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
        ways = [way for _, way in part.each(keyword)]
        if any(self._holds(first, Demand.of(way), here) for way in ways):
            return
        yield from self._nearest(first, part, keyword, here)

    def _one_of(self, first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
        ways = [way for _, way in part.each(keyword)]
        taking = [way for way in ways if self._holds(first, Demand.of(way), here)]
        if not taking:
            found = list(self._nearest(first, part, keyword, here))
            yield from found
            if not contained(found):
                return
        elif all(way is taking[0] or self._empty(first.also(way)) for way in ways) or self._one_each(first, ways, here):
            return
        yield Gap(Kind.UNSURE, here.below(keyword), "what more than one of `oneOf` takes")

    def _one_each(self, first: Demand, ways: list[Node], here: Place) -> bool:
        """Say whether a `oneOf` of the first schema has the same ways: what meets one of them meets no other."""
        for part, _ in first.nodes("oneOf"):
            left = [mine for _, mine in part.each("oneOf")]
            for way in ways:
                match = next((mine for mine in left if self._equivalent(mine, way, here)), None)
                if match is None:
                    break
                left.remove(match)
            else:
                if not left:
                    return True
        return False

    def _equivalent(self, first: Node, second: Node, here: Place) -> bool:
        one, other = Demand.of(first), Demand.of(second)
        return self._same(first, second) or (self._holds(one, other, here) and self._holds(other, one, here))

    def _nearest(self, first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
        """Name the gaps of a choice that does not take all: way by way where the first schema is such a choice."""
        ways = [way for _, way in part.each(keyword)]
        if len(ways) == 1:
            yield from self._gaps(first, Demand.of(ways[0]), here.below(keyword, "0"))
            return
        theirs = next(first.nodes(keyword), None)
        if theirs is None:
            yield Gap(Kind.UNSURE, here.below(keyword), f"what none of `{keyword}` takes")
            return
        mark = (theirs[0].key, keyword)
        for place, mine in theirs[0].each(keyword):
            way = first.also(mine, split=mark)
            if self._empty(way) or any(self._holds(way, Demand.of(each), here) for each in ways):
                continue
            facing = _facing(mine, int(place), ways)
            if facing is None:
                yield Gap(Kind.VALUES, here.below(keyword, place), f"what `{keyword}.{place}` took")
            else:
                yield from self._gaps(way, Demand.of(ways[facing]), here.below(keyword, str(facing)))

    def _if(self, first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
        condition = part.at(keyword)
        if condition is None:
            return
        for word, case in (("then", condition), ("else", _negated(condition))):
            wanted = part.at(word)
            if wanted is None:
                continue
            met = first.also(case)
            if not self._empty(met):
                yield from self._gaps(met, Demand.of(wanted), here.below(word))

    def _not(self, first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
        inner = part.at(keyword)
        if inner is None or self._empty(first.also(inner)):
            return
        kind = Kind.UNSURE if list(first.values(keyword)) else Kind.VALUES
        yield Gap(kind, here.below(keyword), "values that `not` excludes")


def _location(first: Demand, part: Part, trail: Place) -> Place:
    """Where a part stands: a component that both sides use has a place of its own."""
    shared = any(each.node.place == part.node.place for each in first.parts)
    return part.node.place if shared else trail.below(*part.route)


def _unknown(keyword: str, first: Demand, here: Place) -> Iterator[Gap]:
    if keyword in WORDS | MEANINGS | _PASSED or keyword.startswith("x-"):
        return
    if keyword not in SPEAKS_OF:
        yield Gap(Kind.UNKNOWN, here.below(keyword), f"what `{keyword}` excludes")
    elif SPEAKS_OF[keyword] & first.atoms:
        yield Gap(Kind.UNSURE, here.below(keyword), f"what `{keyword}` excludes")


def _negated(schema: Node) -> Node:
    return schema.made("not", {"not": schema.value})


def _strangers(first: Demand, pattern: str | None) -> Iterator[Node]:
    """Yield what `first` demands of a member that it does not list, whose name matches `pattern` or else none."""
    for part in first.parts:
        held = part.node.get("patternProperties", {})
        way: Pointer = ("additionalProperties",)
        if pattern in held:
            way = ("patternProperties", str(pattern))
        elif pattern is not None and held:
            # The name may match another pattern of this part, or none.
            continue
        found = part.node.at(*way)
        if found is not None:
            yield found


def _facing(way: Node, place: int, ways: list[Node]) -> int | None:
    """Return which of `ways` stands where `way` stood: the one of the same component, else of the same place."""
    if way.get("$ref") is not None:
        return next((at for at, each in enumerate(ways) if each.get("$ref") == way.get("$ref")), None)
    return place if place < len(ways) else None


def _keys(node: Node) -> set[str]:
    return set(node.value) if isinstance(node.value, dict) else set()


def _member(name: str) -> str:
    return f"the member {spelled([name])}"
