"""What an OpenAPI 3.1 document is made of: names each object in it by its kind, so that a rule asks for kinds alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

import jsonschema_rs

from tools.lint.document import Document, Pointer, written

_SELF: Final = "urn:gatehouse:document"
STREAM: Final = "text/event-stream"
METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

Shape = tuple[Literal["one", "list", "map"], str]


def _members(shape: Literal["one", "list", "map"], kind: str, *names: str) -> dict[str, Shape]:
    return dict.fromkeys(names, (shape, kind))


# Kind -> member -> how it holds objects of which kind. What is not named here holds no object that a rule looks at.
_GRAMMAR: Final[Mapping[str, Mapping[str, Shape]]] = {
    "document": {
        "info": ("one", "info"),
        "tags": ("list", "tag"),
        "servers": ("list", "server"),
        "paths": ("map", "path"),
        "components": ("one", "components"),
    },
    "components": {
        "schemas": ("map", "schema"),
        "parameters": ("map", "parameter"),
        "headers": ("map", "header"),
        "requestBodies": ("map", "body"),
        "responses": ("map", "response"),
        "securitySchemes": ("map", "scheme"),
        "examples": ("map", "example"),
        "links": ("map", "link"),
        "pathItems": ("map", "path"),
    },
    "path": {
        "parameters": ("list", "parameter"),
        "servers": ("list", "server"),
        **_members("one", "operation", *METHODS),
    },
    "operation": {
        "parameters": ("list", "parameter"),
        "requestBody": ("one", "body"),
        "responses": ("map", "response"),
        "servers": ("list", "server"),
    },
    "parameter": {"schema": ("one", "schema"), "examples": ("map", "example"), "content": ("map", "media")},
    "header": {"schema": ("one", "schema"), "examples": ("map", "example"), "content": ("map", "media")},
    "body": {"content": ("map", "media")},
    "response": {"headers": ("map", "header"), "content": ("map", "media"), "links": ("map", "link")},
    "media": {"schema": ("one", "schema"), "x-item-schema": ("one", "schema"), "examples": ("map", "example")},
    "schema": {
        **_members("map", "schema", "properties", "patternProperties", "dependentSchemas", "$defs"),
        **_members("list", "schema", "allOf", "anyOf", "oneOf", "prefixItems"),
        **_members("one", "schema", "if", "then", "else", "not", "items", "contains", "additionalProperties"),
        **_members("one", "schema", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
    },
}
# The keywords of JSON Schema 2020-12 and of OpenAPI 3.1 that a schema may have: a misspelled one would hold nothing.
SCHEMA_KEYWORDS: Final = frozenset(
    (
        *_GRAMMAR["schema"],
        *("type", "enum", "const", "default", "format", "pattern", "minLength", "maxLength"),
        *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
        *("required", "dependentRequired", "minProperties", "maxProperties", "discriminator"),
        *("title", "description", "example", "examples", "deprecated", "readOnly", "writeOnly", "externalDocs"),
    )
)


@dataclass(frozen=True, slots=True)
class Node:
    """One object of a document: its kind in the grammar, where it stands, and its value."""

    kind: str
    pointer: Pointer
    value: dict[str, Any]

    @property
    def name(self) -> str:
        """The last token of the pointer: the name of a component, a status, a media type, a method."""
        return self.pointer[-1]


class Tree:
    """The objects of one document, by kind and by pointer."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.root = document.root
        self._nodes = {node.pointer: node for node in _walk(Node("document", (), document.root))}

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def every(self, *kinds: str) -> Iterator[Node]:
        """Yield the objects of `kinds` that are written out, not those that are a reference."""
        return (node for node in self if node.kind in kinds and "$ref" not in node.value)

    def resolved(self, node: Node) -> Node:
        """Follow `$ref`s to what `node` means; LookupError where one leads nowhere, in a circle or to another kind."""
        seen = {node.pointer}
        while "$ref" in node.value:
            target = self._nodes.get(target_of(str(node.value["$ref"])))
            if target is None or target.kind != node.kind or target.pointer in seen:
                raise LookupError(node.value["$ref"])
            seen.add(target.pointer)
            node = target
        return node

    def child(self, node: Node, *tokens: str) -> Node | None:
        """Return the object that stands `tokens` below `node`, with its references followed, or None."""
        found = self._nodes.get((*node.pointer, *tokens))
        return None if found is None else self.resolved(found)

    def children(self, node: Node, member: str) -> dict[str, Node]:
        """Return the objects in the map or list `member` of `node` by key or place, with their references followed."""
        held = node.value.get(member, {})
        keys = held if isinstance(held, dict) else [str(place) for place in range(len(held))]
        found = {key: self.child(node, member, key) for key in keys}
        return {key: child for key, child in found.items() if child is not None}

    def parameters(self, operation: Node) -> list[Node]:
        """Return the parameters of `operation`, those of its path included."""
        path = self._nodes[operation.pointer[:-1]]
        return [*self.children(path, "parameters").values(), *self.children(operation, "parameters").values()]

    def validator(self, schema: Node) -> jsonschema_rs.Draft202012Validator:
        """Compile `schema` with formats on; ValueError where it is no sound schema of JSON Schema 2020-12."""
        reference = {"$ref": f"{_SELF}#{quote(written(schema.pointer))}"}
        return jsonschema_rs.Draft202012Validator(reference, registry=self._registry, validate_formats=True)

    @cached_property
    def _registry(self) -> jsonschema_rs.Registry:
        return jsonschema_rs.Registry([(_SELF, self.root)], draft=jsonschema_rs.Draft202012)


def target_of(reference: str) -> Pointer:
    """Return the pointer that the fragment of a local `$ref` spells."""
    tokens = unquote(reference.partition("#")[2]).split("/")[1:]
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for member, (shape, kind) in _GRAMMAR.get(node.kind, {}).items():
        held = node.value.get(member)
        for tokens, value in _held(shape, held):
            if isinstance(value, dict):
                yield from _walk(Node(kind, (*node.pointer, member, *tokens), value))


def _held(shape: str, held: Any) -> Iterator[tuple[Pointer, Any]]:
    if shape == "one":
        yield (), held
    elif shape == "list" and isinstance(held, list):
        yield from (((str(place),), value) for place, value in enumerate(held))
    elif shape == "map" and isinstance(held, dict):
        yield from (((key,), value) for key, value in held.items())
