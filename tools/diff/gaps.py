"""What a comparison of two schemas finds: a gap names values that the one takes and the other does not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from tools.diff.nodes import Place

_MOST_SHOWN: Final = 6


class Kind(Enum):
    """What sort of a gap it is between what is taken (the first schema) and what has to take it (the second)."""

    VALUES = "the second refuses values"
    ENUM = "the second refuses values that the first names one by one"
    UNSURE = "it cannot be decided whether the second refuses values"
    UNKNOWN = "a keyword is not known, which may mean anything"
    UNLISTED = "the second refuses or narrows members that neither lists"
    BEYOND = "the second refuses a member that the first lists"
    CHECKED = "the second lists and narrows a member that the first leaves open"
    # These leave no value out, yet a member that is listed by one alone is a change to whoever reads it.
    FREE = "the second lists a member that the first leaves open, and takes all of it"
    GONE = "the second lists a member that the first refuses"
    UNREAD = "the first lists a member that the second leaves open"
    MEANING = "what stands there is no assertion, but tells how values are read"


# Kinds that a proof may pass over: the second schema takes all that the first takes.
HARMLESS: Final = frozenset({Kind.FREE, Kind.GONE, Kind.UNREAD, Kind.MEANING})
# Kinds that are told once, by the comparison that goes forward, and not again by the one that goes back.
FORWARD: Final = frozenset({Kind.FREE, Kind.GONE, Kind.UNREAD, Kind.CHECKED, Kind.BEYOND})


@dataclass(frozen=True, slots=True)
class Gap:
    """One gap: where the second schema has what makes it, and the values in words."""

    kind: Kind
    place: Place
    what: str


def contained(gaps: Iterable[Gap]) -> bool:
    """Say whether `gaps` prove that nothing is refused."""
    return all(gap.kind in HARMLESS for gap in gaps)


def spelled(values: list[Any]) -> str:
    """Spell values as JSON, the first of them where they are many."""
    shown = [json.dumps(value, ensure_ascii=False) for value in values[:_MOST_SHOWN]]
    rest = len(values) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
