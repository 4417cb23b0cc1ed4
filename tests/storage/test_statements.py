from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from storage.admission import RunStatements
from storage.connections import engine
from storage.events import IdentityStatements
from storage.identifiers import hex_digits
from storage.statements import CHUNK, Spelling, table
from storage.tables import AdmissionRow, AuditHeadRow, DefinitionRow

DEFINITIONS, HEADS, ADMISSIONS = table(DefinitionRow), table(AuditHeadRow), table(AdmissionRow)


@pytest.fixture
def connection(url: str) -> Iterator[sa.Connection]:
    writing = engine(url, "write")
    with writing.connect() as connected, connected.begin():
        yield connected
    writing.dispose()


def cursor(connection: sa.Connection) -> Any:
    return connection.connection.cursor()


@pytest.mark.parametrize("count", [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_any_number_of_rows_is_inserted(connection: sa.Connection, count: int) -> None:
    insert = Spelling(connection.dialect).insert(list(DEFINITIONS.c))
    insert.execute(cursor(connection), [value for n in range(count) for value in (f"w{n}", "1", "d")])
    assert connection.execute(sa.select(sa.func.count()).select_from(DEFINITIONS)).scalar_one() == count


def test_no_rows_are_no_statement(connection: sa.Connection) -> None:
    insert = Spelling(connection.dialect).insert(list(DEFINITIONS.c))
    assert insert.execute(None, []) == []


def test_constants_and_a_suffix_become_part_of_the_statement(connection: sa.Connection) -> None:
    insert = Spelling(connection.dialect).insert(
        [HEADS.c.node, HEADS.c.seq],
        {HEADS.c.hash: "'h'", HEADS.c.length: "7"},
        suffix=" ON CONFLICT (node) DO UPDATE SET seq = excluded.seq",
    )
    insert.execute(cursor(connection), ["n", 1])
    insert.execute(cursor(connection), ["n", 2**40])
    assert connection.execute(sa.select(HEADS)).all() == [("n", 2**40, "h", 7)]


def test_a_query_reads_its_rows_as_item(connection: sa.Connection) -> None:
    spelling = Spelling(connection.dialect)
    query = spelling.select([ADMISSIONS.c.trigger, ADMISSIONS.c.event_id], "SELECT * FROM item ORDER BY 1")
    one, other = uuid4().hex, uuid4().hex
    found = query.execute(cursor(connection), ["b", one, "a", other])
    assert [(trigger, hex_digits(event_id)) for trigger, event_id in found] == [("a", other), ("b", one)]


def test_a_query_over_more_rows_than_one_statement_holds_yields_them_all(connection: sa.Connection) -> None:
    query = Spelling(connection.dialect).select([DEFINITIONS.c.workflow_id], "SELECT workflow_id FROM item")
    names = [f"w{n}" for n in range(2 * CHUNK + 1)]
    assert [row[0] for row in query.execute(cursor(connection), names)] == names


class Captured:
    """A cursor that keeps what it is asked."""

    description = None
    text = ""

    def execute(self, text: str, _: list[object]) -> None:
        self.text = text


def test_what_every_admission_asks_is_answered_by_indexes_also_without_statistics(sqlite_url: str) -> None:
    reading = engine(sqlite_url, "read")
    spelling = Spelling(reading.dialect)
    asked = [IdentityStatements(spelling).known, RunStatements(spelling).live]
    with reading.connect() as connection:
        for rows in asked:
            captured = Captured()
            parameters: list[Any] = ["x"] * rows.width * 3
            rows.execute(captured, parameters)
            plan = cursor(connection).execute(f"EXPLAIN QUERY PLAN {captured.text}", parameters).fetchall()
            tables = [step for *_, step in plan if re.search(r"\b(a|runs)\b", step)]
            assert len(tables) == 2
            assert all(re.match("SEARCH .* USING (COVERING )?INDEX .*=", step) for step in tables)
    reading.dispose()
