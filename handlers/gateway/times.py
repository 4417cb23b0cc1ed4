"""Times as answers have them, and as clients spell them."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, overload

import msgspec

_RFC3339: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9]|60)(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
# Most times are spelled like this: the standard library reads these.
_USUAL: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?Z")
# The longest of those that msgspec does not round.
_LONGEST_USUAL: Final = len("2026-04-15T12:00:00.000000Z")
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = _BEGINNING.toordinal()
# The first and the last millisecond that an answer can spell, of the years 0001 to 9999 in UTC.
_FIRST: Final = (date.min.toordinal() - _EPOCH) * 86_400_000
_LAST: Final = (date.max.toordinal() + 1 - _EPOCH) * 86_400_000 - 1


def now_milliseconds() -> int:
    """Return the time of the wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


@overload
def rfc3339(milliseconds: int) -> str: ...
@overload
def rfc3339(milliseconds: None) -> None: ...
def rfc3339(milliseconds: int | None) -> str | None:
    """Return epoch milliseconds as RFC 3339 in UTC, with `Z` and three fraction digits; None stays None."""
    if milliseconds is None:
        return None
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{milliseconds % 1000:03d}Z"


def epoch_milliseconds(text: str) -> int | None:
    """Return the instant that an RFC 3339 date-time names, None for other text and outside years 0001 to 9999 of UTC.

    Digits of the fraction beyond the third are cut. A second 60 is taken as the second that follows, on any day: when
    leap seconds are is not known here.
    """
    if _USUAL.fullmatch(text) is None:
        return _instant(text)
    try:
        return (datetime.fromisoformat(text) - _BEGINNING) // _MILLISECOND
    except ValueError:
        return None


def epoch_milliseconds_of_each(texts: Sequence[str]) -> list[int | None]:
    """Return what epoch_milliseconds says of each; hundreds that are all spelled as usual take a third of the time."""
    moments = usual_moments(texts)
    if moments is None:
        return [epoch_milliseconds(text) for text in texts]
    return [(moment - _BEGINNING) // _MILLISECOND for moment in moments]


def usual_moments(texts: Sequence[str]) -> list[datetime] | None:
    """Return the instants of RFC 3339 date-times that all have `T`, `Z` and at most six digits of a second's fraction.

    None where one of them is another text or no instant. They are read in one call, as lines of a log come by hundreds.
    """
    try:
        moments = msgspec.convert(texts, list[datetime])
    except msgspec.ValidationError:
        return None
    unusual = [text for text in texts if len(text) > _LONGEST_USUAL or text[10] != "T" or text[-1] != "Z"]
    return None if unusual else moments


def _instant(text: str) -> int | None:
    form = _RFC3339.fullmatch(text)
    if form is None:
        return None
    day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = form.groups()
    try:
        days = date.fromisoformat(day).toordinal() - _EPOCH
    except ValueError:
        return None
    instant = ((days * 24 + int(hour)) * 60 + int(minute)) * 60_000 + int(second) * 1000
    if fraction:
        instant += int(fraction[:3].ljust(3, "0"))
    if sign:
        offset = (int(offset_hours) * 60 + int(offset_minutes)) * 60_000
        instant += offset if sign == "-" else -offset
    return instant if _FIRST <= instant <= _LAST else None
