"""Compares what an operation answers: statuses, media types, headers, bodies and the events of streams."""

from __future__ import annotations

from collections.abc import Mapping

from tools.diff.nodes import Node, Place
from tools.diff.requests import item_schema, media, meeting, schema
from tools.diff.verdicts import Notes


def answers(old: Node, new: Node, place: Place, notes: Notes) -> None:
    """Note what differs between the answers of an operation."""
    before, after = (dict(side.each("responses")) for side in (old, new))
    for status, answer in before.items():
        if status not in after:
            where = place.below("responses", status)
            _gone(status, where, notes)
            # Where a range or the default is still there, it tells of this status from now on.
            instead = _meant(after, status)
            if instead is not None:
                _answer(answer, instead, where, notes)
    for status, answer in after.items():
        where = place.below("responses", status)
        known = before.get(status) or _meant(before, status)
        if known is None:
            notes.risky(where, f"May answer {status}, never answered before: clients may not know what to do.")
        else:
            _answer(known, answer, where, notes)


def _meant(told: Mapping[str, Node], status: str) -> Node | None:
    """Return the answer that tells of a status which has none of its own."""
    return told.get(f"{status[:1]}XX") or told.get("default")


def _gone(status: str, place: Place, notes: Notes) -> None:
    if status[:1] in {"1", "2", "3"} or status == "default":
        notes.breaking(place, f"No longer answers {status}, for which clients wait.")
    else:
        notes.safe(place, f"No longer answers {status}.")


def _answer(old: Node, new: Node, place: Place, notes: Notes) -> None:
    old, new, place = meeting(old, new, place)
    kinds = media(old), media(new)
    for kind in kinds[0].keys() - kinds[1].keys():
        notes.breaking(place.below("content", kind), f"No longer answers in {kind}.")
    for kind in kinds[1].keys() - kinds[0].keys():
        notes.risky(place.below("content", kind), f"May answer in {kind}, never given before.")
    for kind in sorted(kinds[0].keys() & kinds[1].keys()):
        where = place.below("content", kind)
        notes.schemas(schema(kinds[0][kind]), schema(kinds[1][kind]), where.below("schema"))
        notes.schemas(item_schema(kinds[0][kind]), item_schema(kinds[1][kind]), where.below("x-item-schema"))
    _headers(old, new, place, notes)


def _headers(old: Node, new: Node, place: Place, notes: Notes) -> None:
    before, after = ({name.lower(): (name, each) for name, each in side.each("headers")} for side in (old, new))
    for name, (told, _) in before.items():
        if name not in after:
            notes.breaking(place.below("headers", told), f"The header `{told}` is no longer told of.")
    for name, (told, each) in after.items():
        where = place.below("headers", told)
        if name in before:
            _header(before[name][1], each, where, told, notes)
        else:
            notes.safe(where, f"The header `{told}` comes along.")


def _header(old: Node, new: Node, place: Place, name: str, notes: Notes) -> None:
    old, new, place = meeting(old, new, place)
    if old.get("required", False) and not new.get("required", False):
        notes.breaking(place.below("required"), f"The header `{name}` may be missing.")
    elif new.get("required", False) and not old.get("required", False):
        notes.safe(place.below("required"), f"The header `{name}` always comes along.")
    for word in ("style", "explode", "content"):
        if old.get(word) != new.get(word):
            notes.risky(place.below(word), f"The header `{name}` is written in another way.")
    notes.schemas(schema(old), schema(new), place.below("schema"))
