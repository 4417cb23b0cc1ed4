"""The one form in which deliveries and events tell a time; times in answers are times.py's."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final

_FORM: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{0,8}[1-9]))?Z"
)
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_SECOND: Final = 1_000_000_000


def parse(text: str, fraction_digits: int) -> int | None:
    """Return the nanoseconds since the epoch, exactly, or None where `text` is not in the wire form.

    RFC 3339 in UTC with upper-case `T` and `Z` and at most `fraction_digits` (up to nine) digits of a fraction, the
    last of them not 0. Years begin with 0001, and no minute has a second 60.
    """
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    day, hours, minutes, seconds, fraction = form.groups(default="")
    if len(fraction) > fraction_digits:
        return None
    days = _days(day)
    if days is None:
        return None
    whole = ((days * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * _SECOND + int(fraction.ljust(9, "0"))


@lru_cache(maxsize=64)
def _days(day: str) -> int | None:
    """Return the days since the epoch; None for a date that no calendar has. Most times are of a few days."""
    try:
        return date.fromisoformat(day).toordinal() - _FIRST_DAY
    except ValueError:
        return None
