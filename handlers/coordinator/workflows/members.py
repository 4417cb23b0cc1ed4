"""The members that the objects of a YAML file may have, as JSON Schema, and words for what breaks that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonschema_rs import Draft202012Validator, ValidationError, ValidationErrorKind

from handlers.gateway.yaml_reader import Fault, Path

MAX_ENTRIES: Final = 64

_TYPES: Final[Mapping[str, str]] = {
    "boolean": "true or false",
    "array": "a list",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "text (in quotes, where it looks like something else)",
}
_LIMITS: Final[Mapping[str, str]] = {
    "maximum": "must be at most {}",
    "minimum": "must be at least {}",
    "maxItems": "must have at most {} items",
    "minItems": "must have at least {} item",
    "maxLength": "must have at most {} characters",
    "minLength": "must have at least {} character",
    "maxProperties": "must have at most {} members",
}


def closed(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of an object with these members and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": required | (optional or {}),
    }


def named(names: dict[str, Any], values: dict[str, Any], limit: int = MAX_ENTRIES) -> dict[str, Any]:
    """Return the schema of an object whose members the author names, at most `limit`."""
    return {"type": "object", "propertyNames": names, "additionalProperties": values, "maxProperties": limit}


def faults_of(validator: Draft202012Validator, value: Any, patterns: Mapping[str, str]) -> list[Fault]:
    """Return what breaks a schema of the forms above; `patterns` tells, by pattern, what a text has to be."""
    faults = [fault for error in validator.iter_errors(value) for fault in _faults(error, patterns)]
    return list(dict.fromkeys(faults))


def _faults(error: ValidationError, patterns: Mapping[str, str]) -> Iterator[Fault]:
    path: Path = tuple(error.instance_path)
    match error.kind:
        case ValidationErrorKind.Required(name):
            yield Fault(path, f"the member {name} is missing", key=True)
        case ValidationErrorKind.AdditionalProperties(names):
            for name in names:
                yield Fault((*path, name), "no such member is known here", key=True)
        case ValidationErrorKind.PropertyNames(inner):
            for fault in _faults(inner, patterns):
                yield Fault((*path, str(inner.instance)), f"the name {fault.message}", key=True)
        case ValidationErrorKind.Type(types):
            yield Fault(path, "must be " + " or ".join(_TYPES[name] for name in types))
        case ValidationErrorKind.Enum(options):
            yield Fault(path, "must be one of " + ", ".join(map(str, options)))
        case ValidationErrorKind.Pattern(pattern):
            yield Fault(path, patterns[pattern])
        case kind:
            yield Fault(path, _LIMITS[kind.name].format(kind.as_dict()["limit"]))
