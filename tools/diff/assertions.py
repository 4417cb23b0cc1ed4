"""The keywords that speak of a value and not of what is inside it: for each, the gap where nothing implies it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tools.diff import patterns
from tools.diff.demands import ATOMS, NUMBERS, Bound, Demand, atoms_of, exact, kind_of
from tools.diff.gaps import Gap, Kind, spelled
from tools.diff.nodes import Node, Place
from tools.diff.sameness import equal

# Takes what is known of a value, the schema that has the keyword, the keyword, and where that schema stands.
Rule = Callable[[Demand, Node, str, Place], Iterator[Gap]]

_ASSERTED_FORMATS: Final = frozenset(
    (
        *("date", "date-time", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"),
        *("uri", "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer"),
        *("relative-json-pointer", "regex"),
    )
)
_NAMES: Final[Mapping[str, str]] = {
    "null": "null",
    "boolean": "true or false",
    "object": "objects",
    "array": "arrays",
    "string": "strings",
    "integer": "whole numbers",
    "fraction": "fractions",
}
_LONGEST_TEXT: Final = 300


def _type(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    left = first.atoms - atoms_of(part.value[keyword])
    if left:
        yield Gap(Kind.VALUES, here.below(keyword), _kinds(left))


def _enum(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    named = part.value[keyword] if keyword == "enum" else [part.value[keyword]]
    values = first.finite()
    if values is None:
        yield Gap(Kind.VALUES, here.below(keyword), f"values other than {spelled(named)}")
        return
    left = [value for value in values if not any(equal(value, each) for each in named)]
    kinds = {kind_of(each) for each in named}
    strange = [value for value in left if kind_of(value) not in kinds]
    # Whoever reads one kind of value cannot read another, whether all values are known by name or not.
    if strange:
        yield Gap(Kind.VALUES, here.below(keyword), spelled(strange))
    if len(strange) < len(left):
        yield Gap(Kind.ENUM, here.below(keyword), spelled([value for value in left if kind_of(value) in kinds]))


def _low(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    bound = Bound(exact(part.value[keyword]), keyword.startswith("exclusive"))
    low = first.low()
    whole = "fraction" not in first.atoms
    if low is None or (_first_whole(low) < _first_whole(bound) if whole else low < bound):
        yield Gap(Kind.VALUES, here.below(keyword), _beyond(part, keyword, "below", "up to"))


def _high(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    bound = Bound(exact(part.value[keyword]), keyword.startswith("exclusive"))
    high = first.high()
    if high is None or (
        _last_whole(high) > _last_whole(bound)
        if "fraction" not in first.atoms
        else (high.value, not high.open) > (bound.value, not bound.open)
    ):
        yield Gap(Kind.VALUES, here.below(keyword), _beyond(part, keyword, "above", "from"))


def _multiple(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    step = exact(part.value[keyword])
    steps = [exact(value) for value in first.values(keyword)]
    if "fraction" not in first.atoms:
        steps.append(exact(1))
    if not any((each / step).denominator == 1 for each in steps):
        yield Gap(Kind.VALUES, here.below(keyword), f"numbers that are no multiple of {part.value[keyword]}")


def _least(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    least = first.least(keyword)
    if keyword == "minProperties":
        least = max(least, len(first.required()))
    if least < part.value[keyword] and not _long_by_pattern(first, keyword, part.value[keyword]):
        noun = {"minLength": "strings shorter than {} characters", "minItems": "arrays of fewer than {} items"}
        what = noun.get(keyword, "objects with fewer than {} members").format(part.value[keyword])
        yield Gap(Kind.VALUES, here.below(keyword), what)


def _most(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    most = first.most(keyword)
    if (most is None or most > part.value[keyword]) and not _long_by_pattern(first, keyword, part.value[keyword]):
        noun = {"maxLength": "strings longer than {} characters", "maxItems": "arrays of more than {} items"}
        what = noun.get(keyword, "objects with more than {} members").format(part.value[keyword])
        yield Gap(Kind.VALUES, here.below(keyword), what)


def _pattern(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    wanted, held = part.value[keyword], list(first.values(keyword))
    if wanted in held:
        return
    most = first.most("maxLength")
    if most is not None and most <= _LONGEST_TEXT:
        held.append(f"^[\\s\\S]{{{min(first.least('minLength'), most)},{most}}}$")
    verdict = patterns.contained(held, wanted) if held else False
    if verdict is not True:
        sure = verdict is False and not list(first.values("format"))
        yield Gap(Kind.VALUES if sure else Kind.UNSURE, here.below(keyword), f"strings that do not match `{wanted}`")


def _format(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    wanted, held = part.value[keyword], list(first.values(keyword))
    if wanted in held or not first.atoms & ({"string"} | NUMBERS):
        return
    if wanted in _ASSERTED_FORMATS and "string" not in first.atoms:
        return
    sure = wanted in _ASSERTED_FORMATS and not list(first.values("pattern"))
    yield Gap(Kind.VALUES if sure else Kind.UNSURE, here.below(keyword), f"values that are no {wanted}")


def _unique(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    most = first.most("maxItems")
    if part.value[keyword] and True not in first.values(keyword) and (most is None or most > 1):
        yield Gap(Kind.VALUES, here.below(keyword), "arrays that hold an item twice")


def _required(first: Demand, part: Node, keyword: str, here: Place) -> Iterator[Gap]:
    for name in part.value[keyword]:
        if name not in first.required():
            yield Gap(Kind.VALUES, here.below(keyword), f"objects without the member {spelled([name])}")


def _long_by_pattern(first: Demand, keyword: str, length: int) -> bool:
    held = list(first.values("pattern"))
    if keyword not in {"minLength", "maxLength"} or not held:
        return False
    ends = f"{length}," if keyword == "minLength" else f"0,{length}"
    return patterns.contained(held, f"^[\\s\\S]{{{ends}}}$") is True


def _kinds(atoms: frozenset[str]) -> str:
    if len(atoms) > 3:
        kept = ATOMS - atoms
        return f"values other than {_kinds(kept)}" if kept else "any values"
    left = [_NAMES[atom] for atom in sorted(atoms - NUMBERS if atoms >= NUMBERS else atoms)]
    return " and ".join([*left, "numbers"] if atoms >= NUMBERS else left)


def _beyond(part: Node, keyword: str, outside: str, at: str) -> str:
    return f"numbers {at if keyword.startswith('exclusive') else outside} {part.value[keyword]}"


def _first_whole(bound: Bound) -> int:
    whole = -(-bound.value.numerator // bound.value.denominator)
    return whole + 1 if bound.open and whole == bound.value else whole


def _last_whole(bound: Bound) -> int:
    whole = bound.value.numerator // bound.value.denominator
    return whole - 1 if bound.open and whole == bound.value else whole


RULES: Final[Mapping[str, Rule]] = {
    "type": _type,
    "enum": _enum,
    "const": _enum,
    **dict.fromkeys(("minimum", "exclusiveMinimum"), _low),
    **dict.fromkeys(("maximum", "exclusiveMaximum"), _high),
    "multipleOf": _multiple,
    **dict.fromkeys(("minLength", "minItems", "minProperties"), _least),
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties"), _most),
    "pattern": _pattern,
    "format": _format,
    "uniqueItems": _unique,
    "required": _required,
}
