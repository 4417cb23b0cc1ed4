"""What is done with Alembic, which is imported here and in the migrations alone."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from storage.tables import METADATA


def upgrade(connection: sa.Connection, until: str = "head") -> None:
    """Apply every migration that is missing, up to a revision, inside the transaction that the caller has begun."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, until)


def newest() -> str | None:
    """The revision of the newest migration."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def revisions() -> set[str]:
    """Every revision that there is a migration to."""
    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def differences(connection: sa.Connection) -> list[str]:
    """How the schema of this database differs from the tables."""
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return [str(difference) for difference in compare_metadata(context, METADATA)] + _primary_keys(connection)


def _primary_keys(connection: sa.Connection) -> list[str]:
    """The tables whose primary key has other columns, or another order, than in the database; Alembic looks at none."""
    there = sa.inspect(connection)
    return [
        f"the primary key of {table.name}"
        for table in METADATA.sorted_tables
        if there.has_table(table.name)
        and there.get_pk_constraint(table.name)["constrained_columns"] != [each.name for each in table.primary_key]
    ]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config
