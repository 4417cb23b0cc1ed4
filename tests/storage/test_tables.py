from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
import sqlalchemy as sa

from storage.connections import engine
from storage.tables import METADATA


@pytest.fixture
def connection(url: str) -> Iterator[sa.Connection]:
    writing = engine(url, "write")
    with writing.connect() as connected:
        yield connected
    writing.dispose()


def test_there_is_one_row_of_switches_and_no_more(connection: sa.Connection) -> None:
    switches = METADATA.tables["switches"]
    for row_id in (1, 2):
        with pytest.raises(sa.exc.IntegrityError), connection.begin():
            connection.execute(switches.insert().values(id=row_id, admission_held=False, execution_held=False))


@pytest.mark.parametrize("name", ["admissions", "starts", "outbox", "claims", "steps", "commands", "attempts"])
def test_nothing_refers_to_a_run_that_is_not_there(connection: sa.Connection, name: str) -> None:
    refers = METADATA.tables[name]
    made = {sa.Uuid: UUID(int=1), sa.BigInteger: 1, sa.Integer: 1, sa.Boolean: False, sa.Text: "0" * 32}
    values = {column.name: made[type(column.type)] for column in refers.c if not column.nullable}
    with pytest.raises(sa.exc.IntegrityError, match=r"(?i)foreign key"), connection.begin():
        connection.execute(refers.insert().values(values))


@pytest.mark.parametrize("table", METADATA.sorted_tables, ids=lambda table: str(table.name))
def test_times_have_room_for_milliseconds(table: sa.Table) -> None:
    for column in table.c:
        if column.name == "at" or column.name.endswith("_at"):
            assert isinstance(column.type, sa.BigInteger)
