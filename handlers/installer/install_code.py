"""The credential of the installer: the code that stands on the machine's console, and the lock against guessing it."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from typing import Final

from generated.installer.operations import get_install as get_op
from generated.installer.security import InstallCode
from generated.runtime import Incoming
from handlers.gateway.times import now_milliseconds
from handlers.installer import lock
from handlers.installer.lock import Change, address_key
from storage.installer.lock import Lock as StoredLock

LOCKED: Final = "There were too many wrong codes; wait until Retry-After has passed."


def normal(code: bytes) -> bytes:
    """Return the one spelling of a code: letters in upper case, no dashes."""
    return code.upper().replace(b"-", b"")


def given_code(value: bytes) -> bytes:
    """Return the code that an Authorization header gives, bare or after `Bearer ` (RFC 9110, section 11.4)."""
    scheme, blank, code = value.partition(b" ")
    return code.strip(b" ") if blank and scheme.lower() == b"bearer" else value


class InstallCodes:
    """Authenticates whoever gives the install code, as long as nobody has guessed too often."""

    def __init__(self, code: str, stored: StoredLock, now: Callable[[], int] = now_milliseconds) -> None:
        """Take the code as its file has it; ValueError where that is none. `now` tells epoch milliseconds."""
        self._code = normal(code.strip().encode())
        if not self._code:
            raise ValueError("the install code is empty")
        self._stored = stored
        self._now = now
        self._lock: lock.Lock | None = None
        self._loading = asyncio.Lock()

    async def authenticate(self, incoming: Incoming) -> InstallCode | None:
        """Return the principal for the right code; None for none, and for a wrong one, which is counted and kept.

        Raises InstallCodeLocked where no code is considered, and Unavailable, Overloaded, AuditUnavailable and
        Unstorable: then a wrong code is counted all the same, and the right one has to be given again.
        """
        rules = self._lock or await self._loaded()
        # From here on to the count nothing is awaited, or guesses that come together would all pass the lock.
        now, address = self._now(), address_key(incoming.client)
        if remaining := rules.remaining(address, now):
            raise get_op.InstallCodeLocked(LOCKED, retry_after=-(-remaining // lock.SECOND))
        given = [value for name, value in incoming.headers if name == b"authorization"]
        if not given:
            return None
        right = len(given) == 1 and hmac.compare_digest(normal(given_code(given[0])), self._code)
        change = rules.accept(address, now) if right else rules.refuse(address, now)
        if change is not None:
            await self._keep(change)
        return InstallCode() if right else None

    async def _loaded(self) -> lock.Lock:
        async with self._loading:
            if self._lock is None:
                rules = lock.Lock(await self._stored.load(), self._now())
                await self._keep(rules.moved)
                self._lock = rules
            return self._lock

    async def _keep(self, change: Change) -> None:
        if change.records or change.forget:
            await self._stored.save(change.records, change.forget)
