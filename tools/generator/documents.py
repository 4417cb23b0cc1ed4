"""Reads an OpenAPI document and walks it by JSON pointers; knows nothing of what is made from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from tools.lint.document import UnreadableError, read

ValueT = TypeVar("ValueT", str, int, bool)

_KINDS: Final[dict[type, str]] = {str: "text", int: "an integer", bool: "true or false"}
_DATA: Final = frozenset({"example", "examples", "const", "enum", "default"})


class DocumentError(Exception):
    """A document breaks what the generator relies on; the message names the file and the JSON pointer."""

    def __init__(self, source: str, pointer: str, message: str) -> None:
        super().__init__(f"{source}#{pointer}: {message}")
        self.source = source
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class Document:
    """An authored document: the name for messages and headers, and its JSON value."""

    source: str
    value: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> Document:
        """Read the document at `path`; raises DocumentError where it is not one mapping of plain YAML."""
        source = f"{path.parent.name}/{path.name}"
        try:
            return cls(source, read(path).root)
        except UnreadableError as error:
            line, column = error.position
            raise DocumentError(source, "", f"line {line}, column {column}: {error}") from error

    @property
    def root(self) -> Node:
        """The whole document as a place."""
        return Node(self, "", self.value)

    def json(self) -> str:
        """The document as it is served: authored order, two spaces, a newline at the end."""
        return json.dumps(self.value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class Node:
    """A value and the JSON pointer (RFC 6901) that leads to it."""

    document: Document
    pointer: str
    value: Any

    def refuse(self, message: str) -> DocumentError:
        """Make the error that says `message` of this place."""
        return DocumentError(self.document.source, self.pointer, message)

    def get(self, key: str) -> Node | None:
        """Return the member `key`, or None; refuses a value that is not a mapping."""
        value = self.mapping().get(key)
        return None if value is None else self._child(key, value)

    def __getitem__(self, key: str) -> Node:
        """Return the member `key`; refuses a mapping without it."""
        child = self.get(key)
        if child is None:
            raise self.refuse(f"{key} is missing")
        return child

    def items(self) -> Iterator[tuple[str, Node]]:
        """Yield the members in authored order."""
        for key, value in self.mapping().items():
            yield key, self._child(key, value)

    def elements(self) -> Iterator[Node]:
        """Yield the elements of a list."""
        if not isinstance(self.value, list):
            raise self.refuse("must be a list")
        for place, value in enumerate(self.value):
            yield self._child(str(place), value)

    def mapping(self) -> dict[str, Any]:
        """Return the value as a mapping; refuses any other."""
        if not isinstance(self.value, dict):
            raise self.refuse("must be a mapping")
        return self.value

    def text(self, key: str) -> str:
        """Return the required text of the member `key`."""
        return self[key].of(str)

    def optional_text(self, key: str) -> str | None:
        """Return the text of the member `key`, or None where there is none."""
        child = self.get(key)
        return None if child is None else child.of(str)

    def flag(self, key: str) -> bool:
        """Return the boolean of the member `key`; false where there is none."""
        child = self.get(key)
        return child is not None and child.of(bool)

    def integer(self, key: str) -> int:
        """Return the required integer of the member `key`."""
        return self[key].of(int)

    def of(self, kind: type[ValueT]) -> ValueT:
        """Return the value as a `kind`; a boolean is no integer here."""
        if not isinstance(self.value, kind) or (kind is int and isinstance(self.value, bool)):
            raise self.refuse(f"must be {_KINDS[kind]}")
        return self.value

    def resolved(self) -> Node:
        """Follow `$ref`s to what they mean; refuses one that leaves the document, dangles or turns in a circle."""
        node, seen = self, {self.pointer}
        while isinstance(node.value, dict) and "$ref" in node.value:
            target = node.text("$ref")
            if not target.startswith("#/"):
                raise node.refuse(f"{target} leaves the document: only local references are bundled")
            tokens = [unquote(token).replace("~1", "/").replace("~0", "~") for token in target.split("/")[1:]]
            try:
                node = self.document.root.at(tokens)
            except (LookupError, ValueError) as error:
                raise node.refuse(f"{target} leads nowhere") from error
            if node.pointer in seen:
                raise node.refuse("is a reference to itself")
            seen.add(node.pointer)
        return node

    def at(self, path: Iterable[str | int]) -> Node:
        """Return the place at `path` under this one; raises LookupError where there is none."""
        node = self
        for key in path:
            value = node.value[int(key)] if isinstance(node.value, list) else node.mapping()[str(key)]
            node = node._child(str(key), value)
        return node

    def _child(self, key: str, value: Any) -> Node:
        return Node(self.document, f"{self.pointer}/{key.replace('~', '~0').replace('/', '~1')}", value)


def check_references(node: Node, *, of_members: bool = False) -> None:
    """Refuse every `$ref` under `node` that `resolved` refuses; `of_members`: the keys are names, not keywords."""
    if isinstance(node.value, dict):
        if isinstance(node.value.get("$ref"), str):
            node.resolved()
        for key, child in node.items():
            # What stands under these keywords is data, in which a "$ref" means nothing.
            if of_members or key not in _DATA:
                check_references(child, of_members=key == "properties" and not of_members)
    elif isinstance(node.value, list):
        for child in node.elements():
            check_references(child)
