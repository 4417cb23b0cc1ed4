"""Which key each join is pinned to, kept so that a report need not ask the database again."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from storage.join.registrations import Identity

KEPT: Final = 4096

_UUID: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Identities:
    """Finds a join's pin and plan; neither ever changes, so the last `KEPT` that were asked for are kept."""

    def __init__(self, stored: Callable[[str], Awaitable[Identity | None]]) -> None:
        """`stored` finds one in the database, None where there is no join of that id."""
        self._stored = stored
        self._kept: OrderedDict[str, Identity] = OrderedDict()

    async def find(self, join_id: str) -> Identity | None:
        """Return the identity of a join by its hyphenated id in lower case; any other text is no join's."""
        found = self._kept.get(join_id)
        if found is not None:
            self._kept.move_to_end(join_id)
            return found
        found = await self._stored(join_id) if _UUID.fullmatch(join_id) else None
        if found is not None:
            self._kept[join_id] = found
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found
