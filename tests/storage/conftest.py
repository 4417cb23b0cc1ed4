"""Databases for the tests of storage: each test has its own, migrated, of every kind that storage supports."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from storage import migrations
from storage.database import Storage
from tests.storage.postgresql import Server, serving_or_skipped
from tests.storage.work import PACKAGE, open_storage


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "gatehouse.db"
    migrations.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    with serving_or_skipped() as server:
        server.create("migrated")
        migrations.upgrade(server.url("migrated"))
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    shutil.copy(sqlite_template, tmp_path / "gatehouse.db")
    return f"sqlite:///{tmp_path / 'gatehouse.db'}"


@pytest.fixture
def postgresql_url(postgresql: Server) -> str:
    """The one migrated database, emptied: to make another one for each test would take a fifth of a second."""
    postgresql.empty("migrated")
    return postgresql.url("migrated")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a migrated database without content, once for each kind."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def audit_file(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
async def storage(url: str, audit_file: Path) -> AsyncIterator[Storage]:
    """An open storage whose active package is PACKAGE."""
    async with open_storage(url, audit_file) as opened:
        await opened.workflows.apply(PACKAGE.digest, PACKAGE.snapshot, PACKAGE.definitions)
        yield opened
