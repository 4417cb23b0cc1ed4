"""Times as answers have them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload


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
