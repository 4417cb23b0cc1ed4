"""Which media type a client would rather have (RFC 9110, section 12.5.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_RANGE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9a-z-]+)/([!#$%&'*+.^_`|~0-9a-z-]+)")
_WEIGHT: Final = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")


def preferred(accept: str | None, offered: Sequence[str]) -> str:
    """Return the one of the media types `offered` that Accept gives the most weight, the first of equals.

    Where none is acceptable it is the first as well, which serves a client better than an error. Of a media range its
    parameters other than `q` are ignored, and so is a part of the header that is none.
    """
    weights: dict[str, float] = {}
    for part in (accept or "*/*").lower().split(","):
        media_range, *parameters = (piece.strip(" \t") for piece in part.split(";"))
        weight = _weight(parameters)
        if weight is not None and _RANGE.fullmatch(media_range):
            weights[media_range] = max(weight, weights.get(media_range, 0.0))
    return max(offered, key=lambda media_type: _of(media_type, weights))


def _of(media_type: str, weights: dict[str, float]) -> float:
    """Return the weight of a media type: that of the most specific range that it is in."""
    ranges = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((weights[each] for each in ranges if each in weights), 0.0)


def _weight(parameters: Sequence[str]) -> float | None:
    """Return the weight that comes with a range, 1 where none does, None for one that is no weight."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "q":
            return float(value) if _WEIGHT.fullmatch(value) else None
    return 1.0
