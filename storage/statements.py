"""SQL texts for many rows at once, made from the tables and spelled for one dialect; each text is made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlmodel import SQLModel

from storage.tables import METADATA

# Rows beyond this many go in further statements: so the texts that are kept are few and none grows without bound.
CHUNK = 16


def table(model: type[SQLModel]) -> sa.Table:
    """The table of a SQLModel class."""
    return METADATA.tables[str(model.__tablename__)]


class Rows:
    """One statement over a list of rows; `text(n)` is its SQL for n rows of `columns`, parameters row by row."""

    def __init__(self, columns: Sequence[sa.Column[Any]], text: Callable[[int], str]) -> None:
        self.width = len(columns)
        self._text = text
        self._texts: dict[int, str] = {}

    def execute(self, cursor: Any, parameters: list[Any]) -> list[Any]:
        """Run the statement over all rows, whose values follow one another in `parameters`; return what it yields."""
        step = CHUNK * self.width
        yielded: list[Any] = []
        for start in range(0, len(parameters), step):
            chunk = parameters[start : start + step] if len(parameters) > step else parameters
            cursor.execute(self._kept(len(chunk) // self.width), chunk)
            if cursor.description is not None:
                yielded += cursor.fetchall()
        return yielded

    def _kept(self, rows: int) -> str:
        text = self._texts.get(rows)
        if text is None:
            text = self._texts[rows] = self._text(rows)
        return text


class Spelling:
    """How one dialect spells placeholders and names."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect

    def placeholder(self, column: sa.Column[Any]) -> str:
        """The placeholder of one value; PostgreSQL is told its type, which it cannot always infer."""
        if self._dialect.name == "sqlite":
            return "?"
        return f"%s::{column.type.compile(dialect=self._dialect)}"

    def name(self, column: sa.Column[Any]) -> str:
        """The column's name, quoted where it is a keyword."""
        return str(self._dialect.identifier_preparer.format_column(column))

    def insert(
        self,
        columns: Sequence[sa.Column[Any]],
        constants: Mapping[sa.Column[Any], str] | None = None,
        suffix: str = "",
    ) -> Rows:
        """INSERT of many rows: `columns` vary from row to row, `constants` are SQL literals, other columns are NULL."""
        fixed = constants or {}
        names = ", ".join(self.name(column) for column in [*columns, *fixed])
        row = f"({', '.join([*map(self.placeholder, columns), *fixed.values()])})"
        into = f"INSERT INTO {columns[0].table.name} ({names}) VALUES "  # noqa: S608 - all names are the tables'
        return Rows(columns, lambda rows: into + ", ".join([row] * rows) + suffix)

    def select(self, columns: Sequence[sa.Column[Any]], query: str) -> Rows:
        """A query over many rows of parameters, which it reads from `item` under the names of their columns."""
        names = ", ".join(map(self.name, columns))
        row = f"({', '.join(map(self.placeholder, columns))})"
        head = f"WITH item ({names}) AS (VALUES "
        return Rows(columns, lambda rows: head + ", ".join([row] * rows) + f") {query}")
