from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from storage.audit import AUDIT, HEADS
from storage.database import Storage
from storage.errors import Unstorable
from storage.transaction import Transaction
from tests.storage.work import NODE, rows, size

pytestmark = pytest.mark.anyio


def tell(transaction: Transaction, bodies: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    for body in bodies:
        transaction.record("told", "someone", body)
    return bodies


async def test_a_body_is_stored_as_canonical_json(storage: Storage, url: str) -> None:
    await storage.writer.submit(tell, {"b": "\x00é\u2028", "a": 2**53, "c": {"z": True, "y": None}})
    assert rows(url, AUDIT)[-1].body == '{"a":9007199254740992,"b":"\\u0000é\u2028","c":{"y":null,"z":true}}'


async def test_the_head_is_the_last_row_and_the_length_of_the_file(
    storage: Storage, url: str, audit_file: Path
) -> None:
    await storage.writer.submit(tell, {"a": 1})
    [head] = rows(url, HEADS)
    last = rows(url, AUDIT)[-1]
    assert (head.node, head.seq, head.hash, head.length) == (NODE, last.seq, last.hash, size(audit_file))


async def test_a_body_that_is_no_json_fails_its_item_alone(storage: Storage, url: str) -> None:
    before = len(rows(url, AUDIT))
    with pytest.raises(Unstorable):
        await storage.writer.submit(tell, {"a": object()})
    with pytest.raises(Unstorable):
        await storage.writer.submit(tell, {"a": "\ud800"})
    assert len(rows(url, AUDIT)) == before


async def test_all_entries_of_one_transaction_bear_its_time(storage: Storage, url: str) -> None:
    def tell_twice(transaction: Transaction, items: Sequence[int]) -> list[int]:
        tell(transaction, [{}, {}])
        return [transaction.now for _ in items]

    now = await storage.writer.submit(tell_twice, 0)
    assert [row.at for row in rows(url, AUDIT)[-2:]] == [now, now]
