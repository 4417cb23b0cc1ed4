from __future__ import annotations

import pytest

from storage.aggregates import Aggregates
from storage.connections import engine
from storage.database import Storage
from storage.readers import Readers
from storage.writer import Writer

pytestmark = pytest.mark.anyio


async def test_an_open_storage_has_the_aggregates_that_the_process_that_commits_makes_for_itself(
    storage: Storage, url: str
) -> None:
    class Absent(Writer):
        def _packed(self, *_: object) -> None:
            raise NotImplementedError

        def _send(self, *_: object) -> None:
            raise NotImplementedError

        async def _end(self) -> None:
            return

    reading = engine(url, "read")
    made = Aggregates(Absent(waiting=0), Readers(reading, size=1, waiting=0), reading.dialect, recovery_only=False)
    kinds = {name: type(value) for name, value in vars(made).items()}
    assert kinds
    assert kinds.items() <= {name: type(value) for name, value in vars(storage).items()}.items()
    reading.dispose()
