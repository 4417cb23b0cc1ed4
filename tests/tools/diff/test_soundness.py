from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from tests.support.effort import tries
from tests.tools.diff.conftest import compared, document

NAMES: Final = ["a", "b", "x1"]
TYPES: Final = ["string", "integer", "number", "object", "array", "null", "boolean"]
SCALARS: Final[list[Any]] = [None, True, False, 0, 1, 1.5, 2, 3, 7, -1, "", "a", "ab", "abcd", "b", "2026-01-01"]
VALUES: Final[list[Any]] = [
    *SCALARS,
    *([], [1], [1, 1], ["a"], ["a", 1], [1, 2, 3], [None], [[]], [{"a": 1}], [{"a": "b"}, 1], {}),
    *({name: value} for name in NAMES for value in SCALARS),
    *({"a": value, "b": other} for value in SCALARS for other in (2, "b", True)),
    *({"a": {"a": 1}}, {"a": {"b": "a"}}, {"a": 1, "b": 1, "x1": 1}, {"kids": [{"a": 1}]}, {"kids": [{"a": "b"}]}),
]
TREE: Final = {"type": "object", "properties": {"a": {}, "kids": {"items": {"$ref": "#/components/schemas/Tree"}}}}
BOUNDS: Final[list[Any]] = [0, 1, 1.5, 2, 5]
COUNTS: Final[list[Any]] = [0, 1, 2, 3]
# Keyword -> the values that it may have.
PLAIN: Final[dict[str, list[Any]]] = {
    "type": [*TYPES, ["string", "null"], ["integer", "object"], ["array", "boolean", "string"]],
    "enum": [["a"], ["a", 1, None], [2, "b", {"a": 1}], [True, 1.5], ["abcd", "ab", "a", "b"]],
    "const": SCALARS,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), BOUNDS),
    "multipleOf": [0.5, 1, 2],
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), COUNTS),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), COUNTS),
    "pattern": ["^a", "b", "^[ab]*$", "^[a-c]{0,2}$", "^(a|b)+$", "(?!a)"],
    "format": ["date", "uuid"],
    "uniqueItems": [True],
    "required": [["a"], ["b"], ["a", "b"], ["kids"]],
    "dependentRequired": [{"a": ["b"]}, {"b": ["a", "x1"]}],
    "propertyNames": [{"pattern": "^[ab]$"}, {"maxLength": 1}, {"enum": ["a"]}, False],
}
ONE: Final = ["items", "contains", "additionalProperties", "not", "if", "then", "else"]
SEVERAL: Final = ["anyOf", "oneOf", "allOf", "prefixItems"]
NAMED: Final = {
    **dict.fromkeys(("properties", "dependentSchemas"), NAMES),
    "patternProperties": ["^a", "^x", "^[ab]$"],
}
# A type and members come often, as in documents.
KEYWORDS: Final = [*PLAIN, *ONE, *SEVERAL, *NAMED, *(["type", "properties"] * 3)]
LEAVES: Final[list[Any]] = [
    *(True, False, {}, {"$ref": "#/components/schemas/Tree"}),
    *({"type": each} for each in TYPES),
]


def made(random: Random, depth: int = 0) -> Any:
    """Return a schema at random."""
    if depth == 3 or random.random() < 0.2:
        return copy.deepcopy(random.choice(LEAVES))
    names = random.sample(KEYWORDS, random.choice([1, 1, 2, 2, 3, 4]))
    return {name: valued(random, name, depth + 1) for name in names}


def valued(random: Random, keyword: str, depth: int) -> Any:
    if keyword in PLAIN:
        return copy.deepcopy(random.choice(PLAIN[keyword]))
    if keyword in ONE:
        return made(random, depth)
    if keyword in SEVERAL:
        return [made(random, depth) for _ in range(random.choice([1, 2, 2, 3]))]
    return {name: made(random, depth) for name in random.sample(NAMED[keyword], random.choice([1, 2]))}


def changed(random: Random, schema: Any) -> Any:
    """Return `schema` with one keyword more somewhere, one less, or one that has become another."""
    root = copy.deepcopy(schema)
    places = list(objects(root))
    if not places:
        return made(random)
    place = random.choice(places)
    if place and random.random() < 0.6:
        del place[random.choice(sorted(place))]
    if random.random() < 0.8:
        keyword = random.choice(KEYWORDS)
        place[keyword] = valued(random, keyword, 2)
    return root


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schemas in `schema` that are objects."""
    if not isinstance(schema, dict):
        return
    yield schema
    for keyword in schema.keys() & set(ONE):
        yield from objects(schema[keyword])
    for keyword in schema.keys() & {*SEVERAL, *NAMED}:
        held = schema[keyword]
        for each in held.values() if isinstance(held, dict) else held:
            yield from objects(each)


def asked(schema: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    operation = {"operationId": "put", "requestBody": {"content": content}, "responses": {"204": {"description": ""}}}
    return document(paths={"/things": {"put": operation}}, components={"schemas": {"Tree": TREE}})


def taken(schema: Any) -> list[bool]:
    root = {"components": {"schemas": {"Tree": TREE, "It": schema}}, "$ref": "#/components/schemas/It"}
    validator = Draft202012Validator(root, validate_formats=True)
    return [validator.is_valid(value) for value in VALUES]


def is_safe(old: Any, new: Any) -> bool:
    changes = compared(asked(old), asked(new)).changes
    return all(change.verdict == "safe" for change in changes)


def examples(in_ci: int, elsewhere: int) -> settings:
    return settings(max_examples=tries(in_ci, elsewhere), deadline=None, derandomize=True, database=None)


@examples(4_000, 200)
@given(st.integers(0, 2**32))
def test_what_is_told_as_safe_refuses_no_value_that_was_accepted(seed: int) -> None:
    random = Random(seed)
    old = made(random)
    new = changed(random, old)
    pairs = zip(VALUES, taken(old), taken(new), strict=True)
    refused = [value for value, was, now in pairs if was and not now]
    assert not (refused and is_safe(old, new)), (old, new, refused[:3])


@examples(400, 40)
@given(st.integers(0, 2**32))
def test_a_schema_without_a_change_has_none_and_behind_an_all_of_it_is_safe(seed: int) -> None:
    schema = made(Random(seed))
    assert not compared(asked(schema), asked(schema)).changes
    assert is_safe(schema, {"allOf": [schema]}), schema
