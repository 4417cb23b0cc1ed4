from __future__ import annotations

import threading
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa

from storage import migrations
from storage.connections import engine
from storage.errors import SchemaOutOfDate, Unavailable
from storage.migrations import history
from storage.statements import table
from storage.tables import (
    METADATA,
    InstallAttemptRow,
    InstallEventRow,
    JoinRow,
    LedgerMemberRow,
    OutboxRow,
    PackageRow,
    RunRow,
    SwitchRow,
)
from tests.storage.postgresql import Server


def fresh(postgresql: Server, kind: str, tmp_path: Path) -> str:
    """The URL of a database in which nothing is."""
    return f"sqlite:///{tmp_path / 'fresh.db'}" if kind == "sqlite" else postgresql.create(f"fresh_{tmp_path.name}")


KINDS = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


def test_the_migrations_lead_to_the_tables() -> None:
    assert migrations.check() == []


def test_a_column_without_a_migration_is_found() -> None:
    METADATA.tables["runs"].append_column(sa.Column("forgotten", sa.Text()))
    try:
        [difference] = migrations.check()
    finally:
        METADATA.tables["runs"]._columns.remove(METADATA.tables["runs"].c.forgotten)
    assert "forgotten" in difference
    assert migrations.check() == []


def test_a_primary_key_in_another_order_is_found(sqlite_url: str) -> None:
    writing = engine(sqlite_url, "write")
    with writing.connect() as connection:
        connection.execute(sa.text("DROP TABLE definitions"))
        columns = ", ".join(f"{name} TEXT NOT NULL" for name in ("workflow_id", "version", "digest"))
        made = f"CREATE TABLE definitions ({columns}, PRIMARY KEY (version, workflow_id))"
        connection.execute(sa.text(made))
        assert history.differences(connection) == ["the primary key of definitions"]
    writing.dispose()


def test_a_migration_that_head_does_not_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "newest", lambda: "9999")
    assert migrations.check() == [f"HEAD is {migrations.HEAD}, the newest migration is 9999"]


def test_the_schema_on_postgresql_is_that_of_the_tables_too(postgresql_url: str) -> None:
    reading = engine(postgresql_url, "read")
    with reading.connect() as connection:
        assert history.differences(connection) == []
    reading.dispose()


@KINDS
def test_upgrading_makes_the_schema_once(postgresql: Server, kind: str, tmp_path: Path) -> None:
    url = fresh(postgresql, kind, tmp_path)
    assert migrations.upgrade(url)
    assert not migrations.upgrade(url)
    reading = engine(url, "read")
    with reading.connect() as connection:
        migrations.require_head(connection)
        assert connection.execute(sa.text("SELECT * FROM switches")).all() == [(1, False, False, None)]
    reading.dispose()


@KINDS
def test_two_processes_that_upgrade_at_once_upgrade_once(postgresql: Server, kind: str, tmp_path: Path) -> None:
    url = fresh(postgresql, kind, tmp_path)
    done: list[bool] = []
    threads = [threading.Thread(target=lambda: done.append(migrations.upgrade(url))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, True]


@KINDS
def test_an_upgrade_that_fails_leaves_nothing(
    postgresql: Server, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = fresh(postgresql, kind, tmp_path)
    whole = history.upgrade

    def fail(connection: sa.Connection) -> None:
        whole(connection)
        raise ZeroDivisionError

    monkeypatch.setattr(history, "upgrade", fail)
    with pytest.raises(ZeroDivisionError):
        migrations.upgrade(url)
    creating = engine(url, "create")
    with creating.connect() as connection:
        assert sa.inspect(connection).get_table_names() == []
    creating.dispose()


@KINDS
@pytest.mark.parametrize("revision", ["0001", "0002", "0003"])
def test_a_database_of_a_former_revision_keeps_what_it_holds(
    postgresql: Server, kind: str, tmp_path: Path, revision: str
) -> None:
    url = fresh(postgresql, kind, tmp_path)
    member = ("control", UUID(int=7), "node-1", "[]", True)
    members = [member] if revision > "0001" else []
    creating = engine(url, "create")
    with creating.begin() as connection:
        history.upgrade(connection, revision)
        connection.execute(table(PackageRow).insert().values(digest="d", snapshot="{}", applied_at=1))
        connection.execute(table(SwitchRow).update().values(admission_held=True, package_digest="d"))
        for each in members:
            connection.execute(table(LedgerMemberRow).insert().values(each))
    with creating.connect() as connection, pytest.raises(SchemaOutOfDate, match=revision):
        migrations.require_head(connection)
    assert migrations.upgrade(url)
    with creating.connect() as connection:
        migrations.require_head(connection)
        assert history.differences(connection) == []
        assert connection.execute(sa.select(table(PackageRow))).all() == [("d", "{}", 1)]
        assert connection.execute(sa.select(table(SwitchRow))).all() == [(1, True, False, "d")]
        assert connection.execute(sa.select(table(LedgerMemberRow))).all() == members
        for model in (JoinRow, InstallAttemptRow, InstallEventRow):
            assert connection.execute(sa.select(table(model))).all() == []
    creating.dispose()


@KINDS
def test_runs_of_a_database_without_execution_are_kept_and_cancellations_leave_the_outbox(
    postgresql: Server, kind: str, tmp_path: Path
) -> None:
    url = fresh(postgresql, kind, tmp_path)
    run = {"workflow_id": "w", "workflow_version": "1", "definition_digest": "d", "binding_digest": "b", "step": "s"}
    times = {"admitted_at": 1, "deadline_at": 2, "input": '"\\u0000"'}
    flags = {"uncertain": False, "cancel_requested": False, "restore_review_required": False}
    run_ids = [UUID(int=number) for number in range(1, 4)]
    creating = engine(url, "create")
    with creating.begin() as connection:
        history.upgrade(connection, "0003")
        names = ["run_id", *run, *times, "state", *flags]
        runs = sa.table("runs", sa.column("run_id", sa.Uuid()), *(sa.column(name) for name in names[1:]))
        for run_id, state in zip(run_ids, ("admitted", "cancelled", "admitted"), strict=True):
            connection.execute(runs.insert().values(run_id=run_id, **run, **times, state=state, **flags))
        for run_id, work in zip((*run_ids, run_ids[1]), ("admitted", "admitted", "admitted", "cancel"), strict=True):
            connection.execute(table(OutboxRow).insert().values(run_id=run_id, kind=work, created_at=1))
    assert migrations.upgrade(url)
    with creating.begin() as connection:
        assert history.differences(connection) == []
        kept = connection.execute(sa.select(table(RunRow)).order_by(table(RunRow).c.run_id)).all()
        assert [(row.run_id, row.state, row.blocked) for row in kept] == [
            (run_id, state, False) for run_id, state in zip(run_ids, ("admitted", "cancelled", "admitted"), strict=True)
        ]
        waiting = connection.execute(sa.select(table(OutboxRow)).order_by(table(OutboxRow).c.seq)).all()
        assert [(row.seq, row.run_id) for row in waiting] == list(enumerate(run_ids, 1))
        connection.execute(runs.insert().values(run_id=UUID(int=9), **run, **times, state="admitted", **flags))
    creating.dispose()


def test_a_database_that_is_away_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        migrations.upgrade(f"sqlite:///{tmp_path / 'nowhere' / 'gatehouse.db'}")


def test_a_database_of_a_later_version_is_not_used(sqlite_url: str) -> None:
    writing = engine(sqlite_url, "write")
    with writing.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with writing.connect() as connection, pytest.raises(SchemaOutOfDate, match="9999"):
        migrations.require_head(connection)
    with pytest.raises(SchemaOutOfDate, match="9999, of a newer version"):
        migrations.upgrade(sqlite_url)
    writing.dispose()
