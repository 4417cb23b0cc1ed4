"""Compiled JSON Schema validators over a document, and words for what they find that never repeat a received value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jsonschema_rs import Draft202012Validator, ValidationError

from handlers.gateway.faults import Finding

_PHRASES: Final[Mapping[str, str]] = {
    "additionalProperties": "has a member that the document does not know",
    "const": "is not the one value that the document allows",
    "enum": "is not one of the values that the document allows",
    "exclusiveMaximum": "is too large",
    "exclusiveMinimum": "is too small",
    "format": "does not have the form that the document asks for",
    "maxItems": "has too many items",
    "maxLength": "is too long",
    "maximum": "is too large",
    "minItems": "has too few items",
    "minLength": "is too short",
    "minimum": "is too small",
    "pattern": "does not have the form that the document asks for",
    "required": "is required",
    "type": "is not of the type that the document asks for",
    "unevaluatedProperties": "has a member that the document does not know",
    "uniqueItems": "has the same item twice",
}


def validator(contract: Mapping[str, Any], pointers: str | Mapping[str, str]) -> Draft202012Validator:
    """Compile the schema at one JSON pointer of `contract`, or an object whose members have the schemas at `pointers`.

    Formats are checked. Beside the schema stand the document's component schemas, which alone it may refer to: with
    the whole document beside it each validator would hold a copy of that, at a megabyte apiece.
    """
    if isinstance(pointers, str):
        schema = _resolve(contract, pointers)
    else:
        schema = {"properties": {name: _resolve(contract, pointer) for name, pointer in pointers.items()}}
    components = {"schemas": contract["components"]["schemas"]}
    return Draft202012Validator({**schema, "components": components}, validate_formats=True)


def _resolve(contract: Mapping[str, Any], pointer: str) -> Any:
    """Return what stands at a JSON pointer (RFC 6901)."""
    node: Any = contract
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        node = node[int(key)] if isinstance(node, list) else node[key]
    return node


class Describer:
    """Says where and why a value does not satisfy a document, in the document's own words only."""

    def __init__(self, contract: Mapping[str, Any]) -> None:
        self._names = frozenset(_property_names(contract))

    def describe(self, error: ValidationError) -> Finding:
        """Return where the fault is, and a phrase for it."""
        kind = error.kind.name
        path = self.path(error.instance_path)
        missing = error.kind.as_dict().get("property") if kind == "required" else None
        if isinstance(missing, str) and missing in self._names:
            path = f"{path}.{missing}" if path else missing
        return Finding(path, _PHRASES.get(kind, "does not satisfy the document"))

    def path(self, parts: Sequence[str | int]) -> str:
        """Return how messages name a value, as far as its names are the document's."""
        path = ""
        for part in parts:
            if isinstance(part, int):
                path += f"[{part}]"
            elif part in self._names:
                path += f".{part}" if path else part
            else:
                break
        return path


def _property_names(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        properties = node.get("properties")
        if isinstance(properties, dict):
            yield from properties
        for child in node.values():
            yield from _property_names(child)
    elif isinstance(node, list):
        for child in node:
            yield from _property_names(child)
