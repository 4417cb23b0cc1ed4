"""The objects of one side of a comparison, each with the place where it stands; references lead from one to another."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

Pointer = tuple[str, ...]

# What stands for a name that `at` does not find: null is a value of JSON.
_ABSENT: Final = object()


class Place(NamedTuple):
    """A document's name and the way to an object in it."""

    document: str
    pointer: Pointer

    def below(self, *tokens: str) -> Place:
        """Return the place that `tokens` lead to from here."""
        return Place(self.document, (*self.pointer, *tokens))

    def written(self, document: str) -> str:
        """Spell the place for people, with dots, and with its document's name where that is not `document`."""
        way = ".".join(self.pointer)
        return way or self.document if self.document == document else f"{self.document}#{way}"


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The documents before a change, or after it, by name: `old` or `new` is the name of the side."""

    name: str
    documents: Mapping[str, Any]

    def node(self, place: Place) -> Node | None:
        """Return what stands at `place`."""
        if place.document not in self.documents:
            return None
        return Node(self, Place(place.document, ()), self.documents[place.document]).at(*place.pointer)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A value in a document, or one made from it: then its place has a token that begins with `!`."""

    side: Side
    place: Place
    value: Any

    @property
    def key(self) -> tuple[str, Place]:
        """What tells it from every other."""
        return (self.side.name, self.place)

    def at(self, *tokens: str) -> Node | None:
        """Return the value that `tokens` lead to, or None."""
        value = self.value
        for token in tokens:
            value = _step(value, token)
            if value is _ABSENT:
                return None
        return Node(self.side, self.place.below(*tokens), value)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the plain value of the member `name`."""
        return self.value.get(name, default) if isinstance(self.value, dict) else default

    def each(self, name: str) -> Iterator[tuple[str, Node]]:
        """Yield the values in the map or list `name` by key or place."""
        held = self.get(name)
        keys = held if isinstance(held, dict) else map(str, range(len(held))) if isinstance(held, list) else ()
        for key in keys:
            found = self.at(name, key)
            if found is not None:
                yield key, found

    def made(self, mark: str, value: Any) -> Node:
        """Return a value that is made from this one."""
        return Node(self.side, self.place.below(f"!{mark}"), value)

    def target(self) -> Node | None:
        """Return what `$ref` names; None where there is no such thing."""
        reference = self.get("$ref")
        if not isinstance(reference, str):
            return None
        file, _, fragment = reference.partition("#")
        document = posixpath.normpath(posixpath.join(posixpath.dirname(self.place.document), file)) if file else None
        if fragment and not fragment.startswith("/"):
            return None
        tokens = (token.replace("~1", "/").replace("~0", "~") for token in unquote(fragment).split("/")[1:])
        return self.side.node(Place(document or self.place.document, tuple(tokens)))

    @property
    def elsewhere(self) -> bool:
        """Whether `$ref` names a file that is not among the documents, and may be another one on each side."""
        reference = self.get("$ref")
        local = isinstance(reference, str) and not reference.startswith("#") and "://" not in reference
        return local and self.target() is None

    def resolved(self) -> Node:
        """Follow `$ref`s to what is meant; the node itself where they lead nowhere or in a circle."""
        seen, node = {self.key}, self
        while (target := node.target()) is not None:
            if target.key in seen:
                return self
            seen.add(target.key)
            node = target
        return node


def _step(value: Any, token: str) -> Any:
    if isinstance(value, dict):
        return value.get(token, _ABSENT)
    if isinstance(value, list) and token.isdecimal() and int(token) < len(value):
        return value[int(token)]
    return _ABSENT
