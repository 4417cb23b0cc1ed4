"""Compares what an operation asks of a request: parameters, the body, and who may call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tools.diff.nodes import Node, Place
from tools.diff.verdicts import Notes

ParameterKey = tuple[str, str]

# Where a parameter is -> the `style` that it has where it tells none.
_STYLES: Final = {"path": "simple", "header": "simple", "query": "form", "cookie": "form"}


def media(body: Node) -> dict[str, Node]:
    """Return the media types of a body, in lower case."""
    return {name.lower(): each for name, each in body.each("content")}


def meeting(old: Node, new: Node, place: Place) -> tuple[Node, Node, Place]:
    """Follow the references of both sides; where they lead to one component its place stands for theirs."""
    one, other = old.resolved(), new.resolved()
    return one, other, other.place if one.place == other.place else place


def schema(node: Node) -> Node:
    """Return the schema of a parameter, a header or a media type; without one, anything is right."""
    return node.at("schema") or node.made("schema", True)


def parameters(old: Mapping[ParameterKey, Node], new: Mapping[ParameterKey, Node], notes: Notes) -> None:
    """Note what differs between the parameters of an operation, which are told apart by `in` and name."""
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if before is not None and after is not None:
            _parameter(before, after, notes)
        else:
            _lone(before, after, notes)


def _lone(old: Node | None, new: Node | None, notes: Notes) -> None:
    if old is not None:
        notes.breaking(old.place, f"{_called(old)} is gone: what clients send in it is unread or refused.")
    elif new is not None and new.get("required") is True:
        notes.breaking(new.place, f"{_called(new)} is new and demanded: requests without it are refused.")
    elif new is not None:
        notes.safe(new.place, f"{_called(new)} is new, and may be left out.")


def _called(parameter: Node) -> str:
    return f"The {parameter.get('in')} parameter `{parameter.get('name')}`"


def _parameter(old: Node, new: Node, notes: Notes) -> None:
    where, name = new.place, _called(new)
    _demanded(old, new, where, name, notes)
    _fault(old, new, where, notes)
    for word in ("style", "explode", "allowReserved", "allowEmptyValue"):
        if _spelling(old, word) != _spelling(new, word):
            notes.breaking(where.below(word), f"{name} is written in another way.")
    if set(media(old)) != set(media(new)):
        notes.breaking(where.below("content"), f"{name} is written in another media type.")
    for kind in media(old).keys() & media(new).keys():
        notes.schemas(schema(media(old)[kind]), schema(media(new)[kind]), where.below("content", kind, "schema"))
    if not media(old) and not media(new):
        notes.schemas(schema(old), schema(new), where.below("schema"))


def _spelling(parameter: Node, word: str) -> Any:
    style = parameter.get("style", _STYLES.get(parameter.get("in", ""), ""))
    default = {"style": style, "explode": style == "form"}
    return parameter.get(word, default.get(word, False))


def _demanded(old: Node, new: Node, place: Place, what: str, notes: Notes) -> None:
    before, after = (each.get("required", False) is True for each in (old, new))
    if after and not before:
        notes.breaking(place.below("required"), f"{what} was optional and is demanded now.")
    elif before and not after:
        notes.safe(place.below("required"), f"{what} may be left out.")


def _fault(old: Node, new: Node, place: Place, notes: Notes) -> None:
    before, after = old.get("x-problem"), new.get("x-problem")
    if before != after:
        notes.risky(place.below("x-problem"), f"A fault here is answered by the code {after} instead of {before}.")


def body(old: Node | None, new: Node | None, place: Place, notes: Notes) -> None:
    """Note what differs between the bodies that an operation takes."""
    if old is None or new is None:
        if old is not None:
            notes.breaking(place, "A body is no longer taken.")
        elif new is not None and new.resolved().get("required") is True:
            notes.breaking(place, "Requests without a body are refused.")
        elif new is not None:
            notes.safe(place, "Takes a body, which may be left out.")
        return
    old, new, place = meeting(old, new, place)
    _demanded(old, new, place, "The body", notes)
    _fault(old, new, place, notes)
    _limits(old, new, place, notes)
    kinds = media(old), media(new)
    for kind in kinds[0].keys() - kinds[1].keys():
        notes.breaking(place.below("content", kind), f"Bodies of type {kind} are refused, accepted before.")
    for kind, other in sorted(kinds[1].items()):
        # Of several ranges that a type is in, the narrowest was meant.
        one = next((kinds[0][each] for each in (kind, f"{kind.partition('/')[0]}/*", "*/*") if each in kinds[0]), None)
        where = place.below("content", kind)
        if one is None:
            notes.safe(where, f"Bodies of type {kind} are accepted, too.")
            continue
        notes.schemas(schema(one), schema(other), where.below("schema"))
        notes.schemas(item_schema(one), item_schema(other), where.below("x-item-schema"))
        if one.get("encoding") != other.get("encoding"):
            notes.risky(where.below("encoding"), "The fields of a form are encoded in another way.")


def item_schema(node: Node) -> Node:
    """Return what an event of a stream has to be; without a word on it, anything."""
    return node.at("x-item-schema") or node.made("x-item-schema", True)


def _limits(old: Node, new: Node, place: Place, notes: Notes) -> None:
    before, after = old.get("x-body-limit"), new.get("x-body-limit")
    where = place.below("x-body-limit")
    if after is not None and (before is None or after < before):
        was = "no limit was told" if before is None else f"{before} were allowed"
        notes.breaking(where, f"Bodies over {after} bytes are refused, where {was}.")
    elif before != after:
        more = "of any length" if after is None else f"of up to {after} bytes"
        notes.safe(where, f"Bodies {more} are accepted; {before} bytes were the most.")
    strict = [each.get("x-canonical-json", False) for each in (old, new)]
    where = place.below("x-canonical-json")
    if strict == [False, True]:
        notes.breaking(where, "Bodies that are not canonical JSON are refused, accepted before.")
    elif strict == [True, False]:
        notes.safe(where, "Bodies need not be canonical JSON any more.")


Alternative = frozenset[tuple[str, str | None]]


def security(old: Node, new: Node, place: Place, notes: Notes) -> None:
    """Note what differs between the ways to prove who calls; each side is a list of alternatives, or absent."""
    ways = _alternatives(old.value), _alternatives(new.value)
    for way in ways[0]:
        if not any(each <= way for each in ways[1]):
            notes.breaking(place, f"A request {_told(way)} is refused, accepted before.")
    for way in ways[1]:
        if not any(each <= way for each in ways[0]):
            notes.safe(place, f"A request {_told(way)} is accepted, too.")


def _alternatives(listed: Any) -> list[Alternative]:
    return [
        frozenset((name, scope) for name, scopes in way.items() for scope in [None, *scopes]) for way in listed or [{}]
    ]


def _told(way: Alternative) -> str:
    if not way:
        return "without a credential"
    scopes = [scope for _, scope in way if scope is not None]
    names = " and ".join(sorted(name for name, scope in way if scope is None))
    return f"with {names} alone" + (f" (scopes {', '.join(sorted(scopes))})" if scopes else "")
