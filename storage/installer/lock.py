"""What addresses have tried with the install code, kept for the rules of its lock, which are the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from storage.readers import Readers
from storage.statements import Spelling, table
from storage.tables import InstallAddressRow
from storage.transaction import Transaction
from storage.writer import Writer

ADDRESSES: Final = table(InstallAddressRow)


class AddressRecord(NamedTuple):
    """One address, or network, by the caller's name of it; times are epoch milliseconds.

    `failures` counts wrong codes in a row, `passed_at` is when it last gave the right one.
    """

    address: str
    failures: int
    locked_until: int
    last_at: int
    passed_at: int | None


class _Change(NamedTuple):
    records: tuple[AddressRecord, ...]
    forget: tuple[str, ...]


class Lock:
    """Both methods raise Unavailable and Overloaded; save raises AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers, spelling: Spelling) -> None:
        self._writer = writer
        self._readers = readers
        columns = ADDRESSES.c
        others = [column.name for column in columns if column is not columns.address]
        self._upsert = spelling.insert(
            list(columns),
            suffix=" ON CONFLICT (address) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in others),
        )
        self._delete = spelling.select(
            [columns.address], "DELETE FROM install_addresses WHERE address IN (SELECT address FROM item)"
        )

    async def load(self) -> list[AddressRecord]:
        """Every address that is known, the one that tried longest ago first."""
        return await self._readers.read(_load)

    async def save(self, records: Sequence[AddressRecord], forget: Sequence[str] = ()) -> None:
        """Keep these records in place of those of the same addresses, and none of the addresses to forget."""
        await self._writer.submit(self._save_many, _Change(tuple(records), tuple(forget)))

    def _save_many(self, transaction: Transaction, changes: Sequence[_Change]) -> list[None]:
        last: dict[str, AddressRecord | None] = {}
        for change in changes:
            last |= {record.address: record for record in change.records} | dict.fromkeys(change.forget)
        kept = [value for record in last.values() if record is not None for value in record]
        self._upsert.execute(transaction.cursor, kept)
        self._delete.execute(transaction.cursor, [address for address, record in last.items() if record is None])
        return [None] * len(changes)


def _load(connection: sa.Connection) -> list[AddressRecord]:
    query = sa.select(ADDRESSES).order_by(ADDRESSES.c.last_at, ADDRESSES.c.address)
    return [AddressRecord(*row) for row in connection.execute(query)]
