from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage.connections import engine
from storage.database import Limits, Storage
from storage.errors import Overloaded, Unavailable
from storage.readers import Readers
from tests.storage.work import admit, open_storage

pytestmark = pytest.mark.anyio


async def test_reads_beyond_the_bound_are_refused_at_once(url: str) -> None:
    reading = engine(url, "read", size=2)
    readers = Readers(reading, size=2, waiting=3)
    go_on = threading.Event()

    def read(connection: sa.Connection) -> int:
        assert go_on.wait(timeout=60)
        return connection.execute(sa.select(sa.literal(1))).scalar_one()

    waiting = [asyncio.create_task(readers.read(read)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await readers.read(read)
    go_on.set()
    assert await asyncio.gather(*waiting) == [1, 1, 1]
    assert await readers.read(read) == 1
    await readers.close()
    reading.dispose()


async def test_a_read_is_served_while_the_writer_is_held(storage: Storage) -> None:
    go_on, reached = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        reached.set()
        assert go_on.wait(timeout=60)

    storage.writer.failure_points.before_commit = hold
    writing = asyncio.create_task(admit(storage))
    await asyncio.to_thread(reached.wait)
    await storage.ready()
    assert await storage.runs.list(limit=1) == []
    go_on.set()
    await writing


async def test_many_reads_at_once_are_all_answered(url: str, audit_file: Path) -> None:
    async with open_storage(url, audit_file, limits=Limits(readers=2)) as storage:
        await asyncio.gather(*(storage.ready() for _ in range(200)))


async def test_a_read_cannot_write(url: str) -> None:
    reading = engine(url, "read")
    readers = Readers(reading, size=1, waiting=1)
    with pytest.raises(Unavailable) as caught:
        await readers.read(lambda connection: connection.execute(sa.text("UPDATE switches SET id = 1")))
    assert re.search("read-?only", str(caught.value.__cause__))
    await readers.close()
    reading.dispose()
