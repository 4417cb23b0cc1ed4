"""Claims: a run is in one executor's hands exactly while its claim stands."""

from __future__ import annotations

from collections.abc import Mapping

from storage.execution.records import Claim
from storage.readers import Readers
from storage.writer import Writer


class Claims:
    """Every method raises Unavailable and Overloaded; those that write raise AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def enlist(self, executor: str) -> None:
        """Make an executor known, so that others see whether it lives; again, it counts as a beat."""
        raise NotImplementedError

    async def beat(self, executor: str) -> None:
        """Count one up, as a sign of life."""
        raise NotImplementedError

    async def beats(self) -> Mapping[str, int]:
        """The counter of every executor that was ever enlisted."""
        raise NotImplementedError

    async def take(self, executor: str, limit: int) -> list[Claim]:
        """Claim at most `limit` runs: those that are due, the longest due first, then new ones in their order.

        None while execution is held. Fewer than `limit` does not mean that there are no more: ask next_due.
        """
        raise NotImplementedError

    async def unblock(self) -> None:
        """Let every blocked run be due: this process may be made of what the last one lacked."""
        raise NotImplementedError

    async def held_by(self, executor: str) -> list[Claim]:
        """The claims of an executor, in the order in which they were given."""
        raise NotImplementedError

    async def renew(self, claim: Claim) -> Claim | None:
        """The same run under a new claim, so that what still carries it under the old one can write nothing.

        None where the claim does not stand any more.
        """
        raise NotImplementedError

    async def adopt(self, dead: str, executor: str) -> int:
        """Renew all claims of an executor that has died, for another one; returns how many."""
        raise NotImplementedError

    async def next_due(self) -> int | None:
        """When the next run is due (epoch milliseconds): 0 where new ones wait, None where none is or all is held."""
        raise NotImplementedError
