"""JSON values as workflows see them: one spelling each, bounded, so that what is computed equals what is read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
import rfc8785

MAX_LEVELS: Final = 64
MAX_TEXT_BYTES: Final = 131_072
MAX_NUMBER: Final = 2**53 - 1

# Copying this many characters costs about as much as copying one number.
_CHARACTERS_OF_WEIGHT_ONE: Final = 64

# Where orjson may spell another text than RFC 8785: exponents, and keys beyond U+FFFF, which sort by UTF-16 code units.
_MAY_DIFFER: Final = re.compile(rb"[\xf0-\xf4]|[0-9]e-")


class UnfitValueError(Exception):
    """A value that has no bounded JSON form; the message is a phrase that repeats nothing of it."""


class LargeTextError(UnfitValueError):
    """A value whose JSON is longer than it may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"is larger than {limit:,} bytes")


def plain(value: Any, levels: int = MAX_LEVELS) -> Any:
    """Return `value` as JSON: integers within 2^53-1, a float only for a fraction, a time as RFC 3339 in UTC with `Z`.

    A time is cut to milliseconds and always written with three digits. Containers are new ones. Raises UnfitValueError
    for all that JSON or these bounds do not have, and beyond `levels` levels of containers.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        return _within(value)
    if kind is float:
        return _number(value)
    if levels == 0:
        raise UnfitValueError("has too many levels")
    if kind is list:
        return [plain(item, levels - 1) for item in value]
    if kind is dict:
        return {_name(name): plain(item, levels - 1) for name, item in value.items()}
    if kind is datetime:
        return _time(value)
    raise UnfitValueError("has no JSON form: a duration, bytes or the like")


def canonical_text(value: Any, limit: int = MAX_TEXT_BYTES) -> str:
    """Return the canonical JSON (RFC 8785) of what `plain` gave; raises LargeTextError beyond `limit` bytes."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if _MAY_DIFFER.search(text):
        text = rfc8785.dumps(value)
    if len(text) > limit:
        raise LargeTextError(limit)
    return text.decode()


def weigh(value: Any, levels: int = MAX_LEVELS) -> tuple[int, int]:
    """Return what copying `value` costs, in copies of one number, and the length of its longest array or object.

    Raises UnfitValueError beyond `levels` levels of containers.
    """
    if isinstance(value, str):
        return 1 + len(value) // _CHARACTERS_OF_WEIGHT_ONE, 0
    if not isinstance(value, list | dict):
        return 1, 0
    if levels == 0:
        raise UnfitValueError("has too many levels")
    weight = 1 + (sum(2 + len(name) // _CHARACTERS_OF_WEIGHT_ONE for name in value) if isinstance(value, dict) else 0)
    longest = len(value)
    for item in value.values() if isinstance(value, Mapping) else value:
        own, length = weigh(item, levels - 1)
        weight += own
        longest = max(longest, length)
    return weight, longest


def _within(value: int) -> int:
    if not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise UnfitValueError("has a number beyond 2^53-1")
    return value


def _number(value: float) -> int | float:
    """Write a whole number as the integer that canonical JSON makes of it."""
    if not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise UnfitValueError("has a number beyond 2^53-1")
    return int(value) if value.is_integer() else value


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise UnfitValueError("has a member whose name is not text")
    return name


def _time(value: datetime) -> str:
    try:
        utc = value.astimezone(UTC)
    except OverflowError:
        raise UnfitValueError("has a time outside the years 0001 to 9999") from None
    return utc.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
