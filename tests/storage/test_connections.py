from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from storage.connections import engine, is_fault, not_opened
from storage.errors import Broken


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "sqlite:///:memory:", "mysql://a/b", "/gatehouse.db"])
def test_a_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///PATH or postgresql://"):
        engine(url, "read")


@pytest.mark.parametrize("purpose", ["read", "write"])
def test_a_sqlite_file_is_not_made_by_reading_or_writing(tmp_path: Path, purpose: str) -> None:
    missing = engine(f"sqlite:///{tmp_path / 'a b%20?.db'}", purpose)  # type: ignore[arg-type]
    with pytest.raises(sa.exc.OperationalError) as caught:
        missing.connect()
    assert is_fault(caught.value, missing.dialect)
    assert list(tmp_path.iterdir()) == []
    missing.dispose()


def test_the_path_of_a_sqlite_file_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a b?%20#é&=+@:.db"
    made = engine(f"sqlite:///{path}", "create")
    made.connect().close()
    made.dispose()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_writing_sqlite_connection_is_durable_and_keeps_its_references(sqlite_url: str) -> None:
    writing = engine(sqlite_url, "write")
    with writing.begin() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    writing.dispose()
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 2000}


def test_a_writing_postgresql_connection_is_durable_and_waits_no_longer_than_it_is_told(postgresql_url: str) -> None:
    writing = engine(postgresql_url, "write", busy_milliseconds=1500)
    with writing.begin() as connection:
        found = {
            name: connection.exec_driver_sql(f"SHOW {name}").scalar_one()
            for name in ("synchronous_commit", "lock_timeout", "transaction_isolation", "transaction_read_only")
        }
    writing.dispose()
    assert found == {
        "synchronous_commit": "on",
        "lock_timeout": "1500ms",
        "transaction_isolation": "read committed",
        "transaction_read_only": "off",
    }


def test_a_read_transaction_sees_one_snapshot(url: str) -> None:
    writing, reading = engine(url, "write"), engine(url, "read")
    held = sa.text("SELECT admission_held FROM switches")
    with reading.begin() as snapshot:
        before = snapshot.scalar(held)
        with writing.begin() as connection:
            connection.execute(sa.text("UPDATE switches SET admission_held = TRUE"))
        assert snapshot.scalar(held) == before
    with reading.begin() as snapshot:
        assert snapshot.scalar(held)
    writing.dispose()
    reading.dispose()


def test_an_error_of_the_work_is_no_fault_of_the_database(url: str) -> None:
    writing = engine(url, "write")
    with writing.connect() as connection, connection.begin():
        with pytest.raises(sa.exc.IntegrityError) as caught:
            connection.execute(sa.text("INSERT INTO starts VALUES ('k', 'd', '00000000000000000000000000000000')"))
        assert not is_fault(caught.value, writing.dialect)
    assert not is_fault(ValueError(), writing.dialect)
    writing.dispose()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://gatehouse:hush@db.example:5433/gatehouse", "PostgreSQL at db.example:5433"),
        ("postgresql://gatehouse:hu/sh@db.example/gatehouse", "PostgreSQL at db.example"),
        ("postgresql://db.example/gatehouse?password=hush", "PostgreSQL at db.example"),
        ("postgresql:///gatehouse?password=hush", "PostgreSQL at the default host"),
        ("sqlite:////var/lib/gatehouse.db", "/var/lib/gatehouse.db"),
    ],
)
def test_a_database_that_cannot_be_opened_is_told_by_its_place_and_without_a_password(url: str, place: str) -> None:
    assert str(not_opened(TimeoutError("hush"), url)) == f"{place} cannot be reached, read or written"


def test_a_file_that_is_no_database_or_is_damaged_is_broken(tmp_path: Path) -> None:
    for content in (b"no database at all", b"SQLite format 3\0" + bytes(5000)):
        file = tmp_path / "broken.db"
        file.write_bytes(content)
        broken = engine(f"sqlite:///{file}", "write")
        with pytest.raises(sa.exc.DatabaseError) as raised, broken.connect() as connection:
            connection.execute(sa.text("SELECT count(*) FROM sqlite_schema"))
        broken.dispose()
        assert isinstance(not_opened(raised.value, f"sqlite:///{file}"), Broken)
