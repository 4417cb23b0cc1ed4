"""A document as plain JSON, the places in it by the keys that lead there, and what a change makes of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Place: TypeAlias = tuple[str, ...]

# What a place has after its value was taken away.
GONE: Final = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One constraint made another one: the place, what stands there afterwards, and what was done, in a few words."""

    place: Place
    value: Any
    what: str


def changed(document: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Return the document after the change, which has to be of a place that is there or could be."""
    whole = copy.deepcopy(dict(document))
    *way, last = change.place
    parent: Any = at(whole, tuple(way))
    key = int(last) if isinstance(parent, list) else last
    if change.value is GONE:
        del parent[key]
    else:
        parent[key] = change.value
    return whole


def at(document: Any, place: Place) -> Any:
    """Return what stands at a place; LookupError where there is nothing."""
    for key in place:
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def resolved(document: Mapping[str, Any], place: Place) -> Place:
    """Follow `$ref`s from a place to the place that is meant."""
    value = at(document, place)
    while isinstance(value, dict) and isinstance(value.get("$ref"), str):
        place = tuple(
            part.replace("~1", "/").replace("~0", "~") for part in value["$ref"].removeprefix("#/").split("/")
        )
        value = at(document, place)
    return place


def pointer(place: Place) -> str:
    """Return the JSON pointer (RFC 6901) of a place."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in place)


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, Place]]:
    """Give the operationId and the place of each operation."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if isinstance(operation, dict) and "operationId" in operation:
                yield operation["operationId"], ("paths", path, method)
