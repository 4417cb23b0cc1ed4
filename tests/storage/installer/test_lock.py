from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from storage.installer.lock import ADDRESSES, AddressRecord
from tests.storage.work import open_storage, rows

pytestmark = pytest.mark.anyio


def record(address: str, last_at: int = 1, failures: int = 5, passed_at: int | None = None) -> AddressRecord:
    return AddressRecord(address, failures, last_at + 1000, last_at, passed_at)


async def test_records_are_loaded_as_they_were_saved_longest_idle_first(
    storage: Storage, url: str, audit_file: Path
) -> None:
    lock = storage.installer.lock
    before = len(rows(url, AUDIT))
    assert await lock.load() == []
    first, second, third = record("192.0.2.1", 3), record("2001:db8::/64", 1, passed_at=2**41), record("192.0.2.2", 2)
    await lock.save([first, second])
    await lock.save([third])
    async with open_storage(url, audit_file) as again:
        assert await again.installer.lock.load() == [second, third, first]
    assert len(rows(url, AUDIT)) == before


async def test_a_record_takes_the_place_of_that_of_its_address_or_is_forgotten(storage: Storage) -> None:
    lock = storage.installer.lock
    await lock.save([record("a", 1), record("b", 2), record("c", 3)])
    later = record("a", 9, failures=6, passed_at=4)
    await lock.save([later], forget=["b", "never seen"])
    assert await lock.load() == [record("c", 3), later]
    await lock.save([], forget=["a", "c"])
    assert await lock.load() == []
    await lock.save([])


async def test_what_is_saved_in_one_batch_counts_in_its_order(storage: Storage) -> None:
    lock = storage.installer.lock
    await lock.save([record("kept", 1)])
    await asyncio.gather(
        *(lock.save([record("many", number, failures=number)], forget=["kept", "again"]) for number in range(40)),
        lock.save([record("again", 50), record("many", 51)]),
        lock.save([record("late", 52)]),
        lock.save([], forget=["late"]),
    )
    assert await lock.load() == [record("again", 50), record("many", 51)]


async def test_ten_thousand_addresses_are_saved_and_forgotten(storage: Storage, url: str) -> None:
    lock = storage.installer.lock
    records = [record(f"192.0.{number >> 8}.{number & 255}", number) for number in range(10_000)]
    await lock.save(records)
    assert await lock.load() == records
    await lock.save([], forget=[each.address for each in records[:9_990]])
    assert [row.address for row in rows(url, ADDRESSES)] == sorted(each.address for each in records[9_990:])
