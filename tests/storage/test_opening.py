from __future__ import annotations

import os
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage.errors import SchemaOutOfDate
from storage.opening import Opened, Place
from tests.storage.work import NODE


def place(url: str, audit_file: Path) -> Place:
    return Place(url=url, node=NODE, audit_file=audit_file, busy_milliseconds=200)


def opened_files(folder: Path) -> list[str]:
    # The folder's own descriptor is closed by the time that it is looked at.
    links = list(Path("/proc/self/fd").iterdir())
    return [target for link in links if (target := os.path.realpath(link)).startswith(str(folder))]


def test_a_url_of_no_known_kind_is_refused_before_anything_is_made(audit_file: Path) -> None:
    with pytest.raises(ValueError, match="sqlite"):
        Opened(place("mysql://somewhere/else", audit_file), readers=1)
    assert not audit_file.exists()


def test_what_is_prepared_reads_and_writes_and_has_its_audit_file(url: str, audit_file: Path) -> None:
    opened = Opened(place(url, audit_file), readers=1)
    opened.prepare()
    for each in (opened.reading, opened.writing):
        with each.connect() as connection, connection.begin():
            assert connection.scalar(sa.text("SELECT 1")) == 1
    assert audit_file.read_bytes() == b""
    opened.release()


def test_what_cannot_be_prepared_holds_no_file(tmp_path: Path, audit_file: Path) -> None:
    (tmp_path / "empty.db").touch()
    opened = Opened(place(f"sqlite:///{tmp_path / 'empty.db'}", audit_file), readers=1)
    with pytest.raises(SchemaOutOfDate):
        opened.prepare()
    assert opened_files(tmp_path) == []


def test_what_is_released_holds_no_file(sqlite_url: str, audit_file: Path, tmp_path: Path) -> None:
    opened = Opened(place(sqlite_url, audit_file), readers=1)
    opened.prepare()
    assert opened_files(tmp_path)
    opened.release()
    assert opened_files(tmp_path) == []
