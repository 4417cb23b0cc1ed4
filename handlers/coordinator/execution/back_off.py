"""How long to wait before a call is tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_FIRST_MILLISECONDS: Final = 1_000
_LAST_MILLISECONDS: Final = 60_000
MAX_RETRY_AFTER_MILLISECONDS: Final = 3_600_000


def back_off(tried: int, retry_after: int | None, jitter: Callable[[], float]) -> int:
    """Return the milliseconds to wait after `tried` attempts before: from a second doubling to a minute.

    `jitter` gives 0 to 1, so that of many who wait no two hundred come back at once: half of the time is left to it.
    What the receiver asked for in `retry_after` (milliseconds) is waited for too, up to an hour.
    """
    whole = min(_FIRST_MILLISECONDS << min(tried, 6), _LAST_MILLISECONDS)
    own = whole // 2 + round(whole / 2 * jitter())
    return max(own, min(retry_after or 0, MAX_RETRY_AFTER_MILLISECONDS))
