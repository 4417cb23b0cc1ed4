from __future__ import annotations

from typing import Any, Final

from hypothesis import HealthCheck, given, settings
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
COUNTS: Final = st.integers(0, 3)
BOUNDS: Final = st.sampled_from([0, 1, 1.5, 2, 5])
SOME_NAMES: Final = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)
PLAIN: Final[dict[str, st.SearchStrategy[Any]]] = {
    "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
    "enum": st.lists(st.sampled_from([*SCALARS, {"a": 1}]), min_size=1, max_size=3),
    "const": st.sampled_from(SCALARS),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), BOUNDS),
    "multipleOf": st.sampled_from([0.5, 1, 2]),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), COUNTS),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), COUNTS),
    "pattern": st.sampled_from(["^a", "b", "^[ab]*$", "^[a-c]{0,2}$", "^(a|b)+$", "(?!a)"]),
    "format": st.sampled_from(["date", "uuid"]),
    "uniqueItems": st.booleans(),
    "required": SOME_NAMES,
    "dependentRequired": st.dictionaries(st.sampled_from(NAMES), SOME_NAMES, max_size=1),
    "propertyNames": st.sampled_from([{"pattern": "^[ab]$"}, {"maxLength": 1}, {"enum": ["a"]}, False]),
}
ONE: Final = ("items", "contains", "additionalProperties", "not", "if", "then", "else")
SEVERAL: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED: Final = {"properties": NAMES, "dependentSchemas": NAMES, "patternProperties": ["^a", "^x", "^[ab]$"]}
# A type comes often, as in documents.
KEYWORDS: Final = [*PLAIN, *ONE, *SEVERAL, *NAMED, *(["type", "properties"] * 4)]
LEAVES: Final = st.sampled_from(
    [True, False, {}, *({"type": each} for each in TYPES), {"$ref": "#/components/schemas/Tree"}]
)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 0) -> Any:
    if depth == 3 or draw(st.integers(0, 3)) == 0:
        return draw(LEAVES)
    inner = schemas(depth + 1)
    made: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(KEYWORDS), max_size=4, unique=True)):
        if name in PLAIN:
            made[name] = draw(PLAIN[name])
        elif name in ONE:
            made[name] = draw(inner)
        elif name in SEVERAL:
            made[name] = draw(st.lists(inner, min_size=1, max_size=3))
        else:
            made[name] = draw(st.dictionaries(st.sampled_from(NAMED[name]), inner, max_size=2))
    return made


SCHEMAS: Final = schemas()


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """Return a schema in which a keyword somewhere has gone, come or become another."""
    if not isinstance(schema, dict) or draw(st.integers(0, 3)) == 0:
        return draw(SCHEMAS)
    added = draw(SCHEMAS)
    if not schema:
        return added
    name = draw(st.sampled_from(sorted(schema)))
    rest = {each: value for each, value in schema.items() if each != name}
    inner = schema[name]
    if isinstance(inner, dict) and name not in {"const", "dependentRequired"} and draw(st.booleans()):
        if name in {"properties", "patternProperties", "dependentSchemas"}:
            return {**rest, name: {each: draw(changed(value)) for each, value in inner.items()}}
        return {**rest, name: draw(changed(inner))}
    return {**rest, **(added if isinstance(added, dict) else {})}


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


@settings(max_examples=tries(3000, 200), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.data())
def test_what_is_told_as_safe_refuses_no_value_that_was_accepted(data: st.DataObject) -> None:
    old = data.draw(SCHEMAS)
    new = data.draw(changed(old))
    refused = [value for value, was, now in zip(VALUES, taken(old), taken(new), strict=True) if was and not now]
    assert not (refused and is_safe(old, new)), (old, new, refused[:3])


@settings(max_examples=tries(500, 50), deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(SCHEMAS)
def test_a_schema_without_a_change_has_none_and_one_behind_a_reference_is_safe(schema: Any) -> None:
    assert not compared(asked(schema), asked(schema)).changes
    assert is_safe(schema, {"allOf": [schema]})
