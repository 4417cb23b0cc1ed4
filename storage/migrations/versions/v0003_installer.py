"""Installer: the config, attempts and their events, and what addresses tried with the install code."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables of the installer; what was there stays as it is."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "install_config",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.CheckConstraint("id = 1", name="install_config_one_row"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "install_attempts",
        sa.Column("attempt", number, autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("verdict_id", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("attempt"),
    )
    op.create_index(
        "install_attempts_running",
        "install_attempts",
        ["state"],
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "install_stream",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_id", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name="install_stream_one_row"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "install_events",
        sa.Column("id", number, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("begins", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt"],
            ["install_attempts.attempt"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "install_addresses",
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("locked_until", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("passed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("address"),
    )
