"""The first schema: packages, switches, runs, identities, outbox and audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table, and the one row of switches: nothing held, nothing active."""
    op.create_table(
        "audit",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("prev_hash", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", "seq"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "audit_heads",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("node"),
    )
    op.create_table(
        "definitions",
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("workflow_id", "version"),
    )
    op.create_table(
        "packages",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("snapshot", sa.Text(), nullable=False),
        sa.Column("applied_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("workflow_version", sa.Text(), nullable=False),
        sa.Column("definition_digest", sa.Text(), nullable=False),
        sa.Column("binding_digest", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("output", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("failure_code", sa.Text(), nullable=True),
        sa.Column("admitted_at", sa.BigInteger(), nullable=False),
        sa.Column("deadline_at", sa.BigInteger(), nullable=False),
        sa.Column("next_due_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("uncertain", sa.Boolean(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("restore_review_required", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_index(
        "runs_by_due",
        "runs",
        ["next_due_at"],
        unique=False,
        sqlite_where=sa.text("next_due_at IS NOT NULL"),
        postgresql_where=sa.text("next_due_at IS NOT NULL"),
    )
    op.create_index("runs_by_state", "runs", ["state", "run_id"], unique=False)
    op.create_index(
        "runs_live_by_binding",
        "runs",
        ["workflow_id", "binding_digest"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "runs_uncertain",
        "runs",
        ["run_id"],
        unique=False,
        sqlite_where=sa.text("uncertain"),
        postgresql_where=sa.text("uncertain"),
    )
    op.create_table(
        "admissions",
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("event_digest", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.run_id"],
        ),
        sa.PrimaryKeyConstraint("event_id", "source", "trigger", "workflow"),
        sa.UniqueConstraint("idempotency_key", "source", "trigger", "workflow", name="admissions_by_key"),
    )
    op.create_table(
        "outbox",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.run_id"],
        ),
        sa.PrimaryKeyConstraint("seq"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "package_definitions",
        sa.Column("package_digest", sa.Text(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["package_digest"],
            ["packages.digest"],
        ),
        sa.PrimaryKeyConstraint("package_digest", "workflow_id", "version"),
    )
    op.create_table(
        "starts",
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.run_id"],
        ),
        sa.PrimaryKeyConstraint("idempotency_key"),
    )
    op.create_table(
        "switches",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("admission_held", sa.Boolean(), nullable=False),
        sa.Column("execution_held", sa.Boolean(), nullable=False),
        sa.Column("package_digest", sa.Text(), nullable=True),
        sa.CheckConstraint("id = 1", name="switches_one_row"),
        sa.ForeignKeyConstraint(
            ["package_digest"],
            ["packages.digest"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.execute("INSERT INTO switches (id, admission_held, execution_held) VALUES (1, FALSE, FALSE)")
