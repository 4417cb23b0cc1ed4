"""JSON Schemas (2020-12) of inputs and outputs: held to a closed, bounded part of the standard, and compiled once.

A schema is whole in itself: `$ref` names a place in the same schema, and never one that leads back to itself. Keywords
and formats that are not known are refused, since a typing error would else pass every value. Patterns are ECMA 262
without look-around and back-references, so that matching takes linear time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from handlers.gateway.yaml_reader import Fault, Path

MAX_SCHEMAS: Final = 1_000
MAX_EXPANDED: Final = 5_000
MAX_LEVELS: Final = 64
# The library looks at what is below each of them twice.
MAX_UNEVALUATED: Final = 4
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

Schema: TypeAlias = dict[str, Any] | bool

_ONE: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"$defs", "dependentSchemas", "patternProperties", "properties"})
_UNEVALUATED: Final = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_OTHERS: Final = frozenset(
    {
        "$comment",
        "$ref",
        "$schema",
        "const",
        "default",
        "dependentRequired",
        "deprecated",
        "description",
        "enum",
        "examples",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "readOnly",
        "required",
        "title",
        "type",
        "uniqueItems",
        "writeOnly",
    }
)
_KEYWORDS: Final = _ONE | _LIST | _NAMED | _OTHERS
_PATTERNS: Final = RegexOptions(size_limit=1_000_000)
_METASCHEMA: Final = Draft202012Validator({"$ref": DIALECT}, offline=True)


def compile_schema(schema: Schema) -> Draft202012Validator:
    """Compile a schema in which check_schema finds nothing; formats are checked, and nothing is fetched."""
    return Draft202012Validator(
        schema, validate_formats=True, ignore_unknown_formats=False, pattern_options=_PATTERNS, offline=True
    )


def check_schema(schema: Schema) -> list[Fault]:
    """Return all that is wrong with a schema; the paths begin at it."""
    faults = [Fault(tuple(error.instance_path), _told(error)) for error in _METASCHEMA.iter_errors(schema)]
    found = dict(_schemas(schema, ()))
    if len(found) > MAX_SCHEMAS:
        return [*faults, Fault((), f"a schema has at most {MAX_SCHEMAS:,} schemas in it")]
    for path, each in found.items():
        faults += _own_faults(path, each, found)
    return list(dict.fromkeys(faults)) or _Expansion(found).faults() or _faults_of_compiling(schema)


def _schemas(schema: Any, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Give each schema that is an object, the outermost first."""
    if isinstance(schema, dict):
        yield path, schema
        for child, below in _children(schema):
            yield from _schemas(below, (*path, *child))


def _children(schema: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for keyword, value in schema.items():
        if keyword in _ONE:
            yield (keyword,), value
        elif keyword in _LIST and isinstance(value, list):
            yield from (((keyword, index), below) for index, below in enumerate(value))
        elif keyword in _NAMED and isinstance(value, dict):
            yield from (((keyword, name), below) for name, below in value.items())


def _own_faults(path: Path, schema: Mapping[str, Any], found: Mapping[Path, Any]) -> Iterator[Fault]:
    for keyword in schema.keys() - _KEYWORDS:
        yield Fault((*path, keyword), "no such keyword is known here", key=True)
    if schema.get("$schema", DIALECT) != DIALECT:
        yield Fault((*path, "$schema"), f"must be {DIALECT}")
    if isinstance(reference := schema.get("$ref"), str) and _target(reference) not in found:
        yield Fault((*path, "$ref"), "must name a schema in this schema, as #/$defs/name")
    if isinstance(name := schema.get("format"), str) and not _compiles({"format": name}):
        yield Fault((*path, "format"), f"the format {name} is not known here")
    if isinstance(pattern := schema.get("pattern"), str) and not _compiles({"pattern": pattern}):
        yield Fault((*path, "pattern"), "is no pattern that can be matched in linear time")
    named = schema.get("patternProperties")
    for pattern in named if isinstance(named, dict) else ():
        if not _compiles({"pattern": pattern}):
            yield Fault(
                (*path, "patternProperties", pattern), "is no pattern that can be matched in linear time", key=True
            )


def _target(reference: str) -> Path | None:
    """Return the path that a fragment means as JSON pointer (RFC 6901); None where it is none or has a percent sign."""
    if not reference.startswith("#") or "%" in reference:
        return None
    parts = reference[1:].split("/")
    if parts[0]:
        return None
    path = [part.replace("~1", "/").replace("~0", "~") for part in parts[1:]]
    return tuple(
        int(part) if before in _LIST and part.isdecimal() else part
        for before, part in zip(("", *path), path, strict=False)
    )


class _Extent(NamedTuple):
    """How many schemas there are with each reference followed anew, and how deep those with `unevaluated…` nest."""

    schemas: int
    unevaluated: int


class _Expansion:
    """Bounds what validating one value may visit."""

    def __init__(self, found: Mapping[Path, Mapping[str, Any]]) -> None:
        self._found = found
        self._extents: dict[Path, _Extent] = {}
        self._open: set[Path] = set()
        self._faults: list[Fault] = []

    def faults(self) -> list[Fault]:
        schemas, unevaluated = self._extent(())
        if schemas > MAX_EXPANDED:
            self._faults.append(Fault((), f"has more than {MAX_EXPANDED:,} schemas, with each $ref written out"))
        if unevaluated > MAX_UNEVALUATED:
            self._faults.append(Fault((), f"unevaluatedProperties or -Items nest at most {MAX_UNEVALUATED} deep"))
        return self._faults

    def _extent(self, path: Path) -> _Extent:
        if path in self._found and path not in self._extents:
            self._open.add(path)
            below = [self._extent(each) for each in self._below(path)]
            self._open.remove(path)
            deepest = max((extent.unevaluated for extent in below), default=0)
            own = not _UNEVALUATED.isdisjoint(self._found[path])
            self._extents[path] = _Extent(1 + sum(extent.schemas for extent in below), deepest + own)
        return self._extents.get(path, _Extent(1, 0))

    def _below(self, path: Path) -> Iterator[Path]:
        schema = self._found[path]
        yield from ((*path, *child) for child, _ in _children(schema))
        target = _target(schema["$ref"]) if "$ref" in schema else None
        if target in self._open:
            self._faults.append(Fault((*path, "$ref"), "leads back to itself: what it describes has no end"))
        elif target is not None and len(self._open) > MAX_LEVELS:
            self._faults.append(Fault((*path, "$ref"), f"schemas nest at most {MAX_LEVELS} deep through each $ref"))
        elif target is not None:
            yield target


def _compiles(schema: Schema) -> bool:
    try:
        compile_schema(schema)
    except ValidationError:
        return False
    return True


def _faults_of_compiling(schema: Schema) -> list[Fault]:
    try:
        compile_schema(schema)
    except ValidationError as error:
        return [Fault(tuple(error.instance_path), _told(error))]
    return []


def _told(error: ValidationError) -> str:
    if error.instance_path[-1:] == ["type"] and error.kind.name == "anyOf":
        return "must be a type of JSON, or a list of different ones"
    return f"is not JSON Schema: {error.message[:200]}"
