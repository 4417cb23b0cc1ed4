"""Join: tokens, joins with their steps, rafts and log lines, and the ledger of members."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables of join; what was there stays as it is."""
    op.create_table(
        "join_tokens",
        sa.Column("token_id", sa.Uuid(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("token_id"),
        sa.UniqueConstraint("secret_hash", name="join_tokens_by_secret"),
    )
    op.create_table(
        "ledger_members",
        sa.Column("raft", sa.Text(), nullable=False),
        sa.Column("member_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("peer_urls", sa.Text(), nullable=False),
        sa.Column("learner", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("raft", "member_id"),
    )
    op.create_table(
        "joins",
        sa.Column("join_id", sa.Uuid(), nullable=False),
        sa.Column("token_id", sa.Uuid(), nullable=False),
        sa.Column("pin", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("peer_urls", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("in_turn", sa.Boolean(), nullable=False),
        sa.Column("approval", sa.BigInteger(), nullable=True),
        sa.Column("registered_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("approved_at", sa.BigInteger(), nullable=True),
        sa.Column("turn_started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("certificate_expires_at", sa.BigInteger(), nullable=False),
        sa.Column("beats", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("recent_keys", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"],
            ["join_tokens.token_id"],
        ),
        sa.PrimaryKeyConstraint("join_id"),
        sa.UniqueConstraint("approval", name="joins_by_approval"),
        sa.UniqueConstraint("token_id", name="joins_by_token"),
    )
    op.create_index("joins_by_state", "joins", ["state", "join_id"], unique=False)
    op.create_index(
        "joins_in_turn",
        "joins",
        ["in_turn"],
        unique=True,
        sqlite_where=sa.text("in_turn"),
        postgresql_where=sa.text("in_turn"),
    )
    op.create_index(
        "joins_live_by_name",
        "joins",
        ["name"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "join_lines",
        sa.Column("join_id", sa.Uuid(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("lines", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["join_id"],
            ["joins.join_id"],
        ),
        sa.PrimaryKeyConstraint("join_id", "last_seq"),
    )
    op.create_table(
        "join_rafts",
        sa.Column("join_id", sa.Uuid(), nullable=False),
        sa.Column("raft", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reached", sa.Integer(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("member_id", sa.Text(), nullable=True),
        sa.Column("peers", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["join_id"],
            ["joins.join_id"],
        ),
        sa.PrimaryKeyConstraint("join_id", "raft"),
    )
    op.create_table(
        "join_steps",
        sa.Column("join_id", sa.Uuid(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["join_id"],
            ["joins.join_id"],
        ),
        sa.PrimaryKeyConstraint("join_id", "step"),
    )
