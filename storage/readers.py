"""Reads: a few connections in threads of their own, each read in one snapshot, never behind the writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import sqlalchemy as sa

from storage.connections import is_fault
from storage.errors import Overloaded, Unavailable

Answer = TypeVar("Answer")


class Readers:
    """As many threads as the engine has connections, and a bound on the reads that wait for one."""

    def __init__(self, reading: sa.Engine, *, size: int, waiting: int) -> None:
        self._engine = reading
        self._limit = waiting
        self._unanswered = 0
        self._threads = ThreadPoolExecutor(max_workers=size, thread_name_prefix="storage-reader")

    async def read(self, query: Callable[[sa.Connection], Answer]) -> Answer:
        """Run `query` in a read transaction; raises Unavailable, or Overloaded where too many reads wait."""
        if self._unanswered >= self._limit:
            raise Overloaded("too many reads wait for the database")
        self._unanswered += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, query)
        finally:
            self._unanswered -= 1

    def _read(self, query: Callable[[sa.Connection], Answer]) -> Answer:
        try:
            with self._engine.connect() as connection, connection.begin():
                return query(connection)
        except Exception as error:
            if is_fault(error, self._engine.dialect):
                raise Unavailable("the database cannot be read") from error
            raise

    async def close(self) -> None:
        """Finish the reads that wait and end the threads."""
        await asyncio.to_thread(self._threads.shutdown)
