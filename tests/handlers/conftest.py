from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage import migrations
from storage.database import Storage
from tests.storage.work import open_storage


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file without content, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "gatehouse.db"
    migrations.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def database_url(tmp_path: Path, migrated: Path) -> str:
    """The URL of a database of the test's own."""
    return f"sqlite:///{shutil.copy(migrated, tmp_path / 'gatehouse.db')}"


@pytest.fixture
async def storage(tmp_path: Path, database_url: str) -> AsyncIterator[Storage]:
    """An open storage of the test's own."""
    async with open_storage(database_url, tmp_path / "audit.jsonl") as opened:
        yield opened
