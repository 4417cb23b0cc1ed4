from __future__ import annotations

from pathlib import Path

import pytest

from storage.database import Limits, Storage
from storage.errors import AuditUnavailable, Broken, Overloaded, SchemaOutOfDate, Unavailable
from tools.commands import database
from tools.commands.terminal import CommandError, RefusedError, UnreachableError
from tools.settings import Settings, parse
from tools.state import StateFolder


@pytest.fixture
def empty(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path)


def settings(folder: StateFolder, text: str = "") -> Settings:
    return parse(text.encode(), folder.settings_file, folder.database)


async def ready(storage: Storage) -> str:
    await storage.ready()
    return "ready"


def test_work_is_done_with_the_storage_of_the_settings(empty: StateFolder) -> None:
    database.migrate(settings(empty), also_postgresql=False)
    assert database.run(empty, settings(empty), ready) == "ready"
    assert empty.audit_file.exists()


def test_a_database_that_was_not_migrated_is_refused_with_the_command_that_does(empty: StateFolder) -> None:
    empty.database.touch()
    with pytest.raises(RefusedError, match="gatehouse init --migrate"):
        database.run(empty, settings(empty), ready)


def test_migrating_postgresql_is_left_to_those_who_ask(empty: StateFolder) -> None:
    away = settings(empty, "databaseUrl: postgresql://gatehouse:hush@127.0.0.1:1/gatehouse")
    database.migrate(away, also_postgresql=False)
    with pytest.raises(UnreachableError) as fault:
        database.migrate(away, also_postgresql=True)
    assert "127.0.0.1:1 " in fault.value.detail
    assert "hush" not in fault.value.detail


@pytest.mark.parametrize("text", ["no database at all", "SQLite format 3\0" + "x" * 5000])
def test_a_file_that_is_no_database_is_refused_by_its_name(empty: StateFolder, text: str) -> None:
    empty.database.write_text(text)
    with pytest.raises(RefusedError, match=f"{empty.database} is no SQLite database"):
        database.migrate(settings(empty), also_postgresql=False)
    with pytest.raises(RefusedError, match=f"{empty.database} is no SQLite database"):
        database.run(empty, settings(empty), ready)


def test_the_limits_are_those_of_the_settings(empty: StateFolder) -> None:
    chosen = settings(empty, "limits: {waiting: 1, readsWaiting: 2, readers: 3, busyMilliseconds: 4}")
    assert database.limits(chosen) == Limits(waiting=1, reads_waiting=2, readers=3, busy_milliseconds=4)
    assert database.limits(settings(empty)) == Limits()


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (Unavailable("away"), UnreachableError),
        (Overloaded("busy"), UnreachableError),
        (Broken("no database"), RefusedError),
        (SchemaOutOfDate("old"), RefusedError),
        (AuditUnavailable("full"), RefusedError),
    ],
)
def test_what_storage_raises_is_told_as_a_commands_fault(raised: Exception, told: type[CommandError]) -> None:
    with pytest.raises(told, match=str(raised)), database.told():
        raise raised
