"""Storage: the one door through which a process reaches its database and its audit file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storage.doctor import Doctor
from storage.events import Admissions
from storage.holds import Holds
from storage.runs import Runs
from storage.workflows import Workflows


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What storage may use: work that waits for the writer, reading connections, milliseconds to wait for a lock."""

    waiting: int = 2048
    readers: int = 4
    busy_milliseconds: int = 2000


class Storage:
    """One process's storage; every coroutine is to be awaited in the loop that opened it."""

    admissions: Admissions
    runs: Runs
    holds: Holds
    workflows: Workflows
    doctor: Doctor

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        node: str,
        audit_file: Path,
        recovery_only: bool = False,
        limits: Limits | None = None,
        on_commit: Callable[[int], None] | None = None,
    ) -> Storage:
        """Open the database at `url` (sqlite:///… or postgresql://…) and bring the audit file level with the table.

        `on_commit` is called in the loop with the number of items of each batch. Raises SchemaOutOfDate where the
        migrations have not been applied, Unavailable where the database cannot be reached, AuditUnavailable where the
        audit file cannot be written.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Finish what waits, then close every connection; may be called twice."""
        raise NotImplementedError

    async def ready(self) -> None:
        """One cheap read; raises Unavailable where the database does not answer."""
        raise NotImplementedError
