"""The rules by which wrong install codes lock those who give them; the clock, in epoch milliseconds, is the caller's.

A lock is a sum over what was seen, without waiting: between asking whether an address is locked and counting what it
gave, nothing else happens.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from storage.installer.lock import AddressRecord

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

# So many wrong codes in a row lock an address for a second, and each further one for twice as long.
ALLOWED_IN_A_ROW: Final = 5
LONGEST: Final = 300 * SECOND
# So many wrong codes within a minute lock every address that has not given the right one within a day.
ALLOWED_IN_A_MINUTE: Final = 50
MOST_ADDRESSES: Final = 10_000

_IPV6_PREFIX: Final = 64
# No address is called like this: under these names the wrong codes of the last minute are kept.
_RECENT: Final[Mapping[str, int]] = {f"recent {index}": index for index in range(ALLOWED_IN_A_MINUTE)}


class Change(NamedTuple):
    """What is to be kept in place of what was, and which addresses are to be forgotten."""

    records: list[AddressRecord]
    forget: list[str]


def address_key(client: str) -> str:
    """Return by what name an address counts: IPv6 by its /64, and as IPv4 where it stands for one (RFC 4291, 2.5.5.2).

    Text that is no address is a name of its own.
    """
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _IPV6_PREFIX), strict=False))


class Lock:
    """What addresses have given, and what follows from it.

    No time is trusted to be before now, and no deadline to be near: a clock that was wrong must not lock for longer
    than a right one would.
    """

    def __init__(self, records: Iterable[AddressRecord], now: int) -> None:
        """Take what was kept; what another clock has written is moved to where this one allows it."""
        self._addresses: OrderedDict[str, AddressRecord] = OrderedDict()
        self._recent = [-MINUTE] * ALLOWED_IN_A_MINUTE
        for record in sorted(records, key=lambda each: each.last_at):
            if record.address in _RECENT:
                self._recent[_RECENT[record.address]] = record.last_at
            else:
                self._addresses[record.address] = record
        self.moved = self._settle(now)

    def remaining(self, address: str, now: int) -> int:
        """Return for how many milliseconds no code of an address is considered; 0 where one is."""
        record = self._record(address, now)
        until = record.locked_until
        if record.passed_at is None or record.passed_at <= now - DAY:
            until = max(until, self._all_until(now))
        return max(until - now, 0)

    def refuse(self, address: str, now: int) -> Change:
        """Count a wrong code of an address that is not locked."""
        record = self._record(address, now)
        failures = record.failures + 1
        # A deadline that has passed would lock again where the clock goes back.
        until = now + _duration(failures) if failures >= ALLOWED_IN_A_ROW else 0
        counted = record._replace(failures=failures, locked_until=until, last_at=now)
        slot = self._recent.index(min(self._recent))
        self._recent[slot] = now
        return Change([counted, _recent_record(slot, now)], self._keep(counted))

    def accept(self, address: str, now: int) -> Change | None:
        """Note the right code of an address that is not locked; None where what is kept says enough already."""
        record = self._record(address, now)
        passed = record._replace(failures=0, locked_until=0, last_at=now, passed_at=now)
        known = record.passed_at is not None and now - record.passed_at < MINUTE and record.failures == 0
        if known:
            self._keep(passed._replace(passed_at=record.passed_at))
            return None
        return Change([passed], self._keep(passed))

    def _record(self, address: str, now: int) -> AddressRecord:
        record = self._addresses.get(address)
        if record is None:
            return AddressRecord(address, 0, 0, now, None)
        settled = _settled(record, now)
        if settled is not record:
            # Kept, since a deadline that is moved again at each look would never come.
            self._addresses[address] = settled
        return settled._replace(failures=0, locked_until=0) if now - settled.last_at >= HOUR else settled

    def _all_until(self, now: int) -> int:
        """Until when there are too many wrong codes within a minute."""
        if max(self._recent) > now:
            self._recent = [min(at, now) for at in self._recent]
        return min(self._recent) + MINUTE

    def _keep(self, record: AddressRecord) -> list[str]:
        """Keep a record as the one that was used last; returns the addresses that had to go."""
        self._addresses[record.address] = record
        self._addresses.move_to_end(record.address)
        return self._forget()

    def _forget(self) -> list[str]:
        forgotten = []
        while len(self._addresses) > MOST_ADDRESSES:
            forgotten.append(self._addresses.popitem(last=False)[0])
        return forgotten

    def _settle(self, now: int) -> Change:
        """Move what another clock has written; returns what is to be kept for that."""
        moved = [settled for each in self._addresses.values() if (settled := _settled(each, now)) is not each]
        self._addresses.update((record.address, record) for record in moved)
        late = [slot for slot, at in enumerate(self._recent) if at > now]
        for slot in late:
            self._recent[slot] = now
        moved += [_recent_record(slot, now) for slot in late]
        return Change(moved, self._forget())


def _duration(failures: int) -> int:
    """For how long so many wrong codes in a row lock, where they do."""
    return min(SECOND << min(failures - ALLOWED_IN_A_ROW, LONGEST.bit_length()), LONGEST)


def _settled(record: AddressRecord, now: int) -> AddressRecord:
    """Return a record whose times are as this clock allows them; the same one where they are."""
    late = record.passed_at is not None and record.passed_at > now
    if record.last_at <= now and record.locked_until <= now + LONGEST and not late:
        return record
    return record._replace(
        last_at=min(record.last_at, now),
        locked_until=min(record.locked_until, now + LONGEST),
        passed_at=now if late else record.passed_at,
    )


def _recent_record(slot: int, now: int) -> AddressRecord:
    return AddressRecord(f"recent {slot}", 1, 0, now, None)
