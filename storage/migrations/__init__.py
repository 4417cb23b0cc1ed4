"""The schema's history: applying it, asking whether it is applied, and proving that it leads to the tables."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from storage.connections import engine, is_fault, not_opened
from storage.errors import SchemaOutOfDate

# The revision that the tables stand for. Alembic knows it too, but importing Alembic would slow every start.
HEAD: Final = "0004"


def upgrade(url: str, *, busy_milliseconds: int = 2000) -> bool:
    """Apply what is missing, all or nothing; return whether anything was. A missing SQLite file is made.

    Raises SchemaOutOfDate where a newer version has migrated it, Unavailable where the database cannot be reached or
    another process does the same for too long, Broken where the SQLite file is none.
    """
    creating = engine(url, "create", busy_milliseconds=busy_milliseconds)
    try:
        with creating.connect() as connection, connection.begin():
            found = revision(connection)
            if found == HEAD:
                return False
            from storage.migrations import history  # noqa: PLC0415 - see HEAD

            if found is not None and found not in history.revisions():
                raise SchemaOutOfDate(f"the database is at revision {found}, of a newer version than this one")
            history.upgrade(connection)
            return True
    except Exception as error:
        if is_fault(error, creating.dialect):
            raise not_opened(error, url) from error
        raise
    finally:
        creating.dispose()


def revision(connection: sa.Connection) -> str | None:
    """The revision at which this database is; None where no migration was ever applied."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return found


def require_head(connection: sa.Connection) -> None:
    """Raise SchemaOutOfDate unless the database is at HEAD."""
    found = revision(connection)
    if found != HEAD:
        raise SchemaOutOfDate(
            f"the database is at revision {found or 'none'}, this version needs {HEAD}: run `gatehouse init --migrate`"
        )


def check() -> list[str]:
    """Where the migrations, applied to an empty SQLite database, do not lead to the tables; empty where they do."""
    from storage.migrations import history  # noqa: PLC0415 - see HEAD

    head = history.newest()
    faults = [] if head == HEAD else [f"HEAD is {HEAD}, the newest migration is {head}"]
    memory = sa.create_engine("sqlite://")
    try:
        with memory.begin() as connection:
            history.upgrade(connection)
            return faults + history.differences(connection)
    finally:
        memory.dispose()
