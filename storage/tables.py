"""The tables: every column is defined here once, for the migrations, the plain queries and the writer's statements.

Times are epoch milliseconds, digests `sha256:` and 64 hex, and free text is kept inside JSON text, where U+0000 is an
escape that PostgreSQL takes.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import sqlalchemy as sa
from sqlmodel import Field, Index, PrimaryKeyConstraint, SQLModel, UniqueConstraint

METADATA: Final = SQLModel.metadata


def _text(*, primary_key: bool = False, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(sa.Text(), primary_key=primary_key, nullable=nullable)


def _big(*, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(sa.BigInteger(), nullable=nullable)


def _number() -> sa.Column[int]:
    """A primary key that is given by the code; on SQLite it is the number by which rows are kept."""
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(kind, primary_key=True, autoincrement=False)


class PackageRow(SQLModel, table=True):
    """A package as it was applied: its snapshot under its digest."""

    __tablename__ = "packages"

    digest: str = Field(sa_column=_text(primary_key=True))
    snapshot: str = Field(sa_column=_text())
    applied_at: int = Field(sa_column=_big())


class PackageDefinitionRow(SQLModel, table=True):
    """Which definition a package holds under a workflow's id and version."""

    __tablename__ = "package_definitions"

    package_digest: str = Field(
        sa_column=sa.Column(sa.Text(), sa.ForeignKey("packages.digest"), primary_key=True, nullable=False)
    )
    workflow_id: str = Field(sa_column=_text(primary_key=True))
    version: str = Field(sa_column=_text(primary_key=True))
    digest: str = Field(sa_column=_text())


class DefinitionRow(SQLModel, table=True):
    """The definition that was the first to bear this workflow's id and version; it is retained for ever."""

    __tablename__ = "definitions"

    workflow_id: str = Field(sa_column=_text(primary_key=True))
    version: str = Field(sa_column=_text(primary_key=True))
    digest: str = Field(sa_column=_text())


class SwitchRow(SQLModel, table=True):
    """The one row that every admission reads: the two holds and the active package."""

    __tablename__ = "switches"
    __table_args__ = (sa.CheckConstraint("id = 1", name="switches_one_row"),)

    id: int = Field(sa_column=sa.Column(sa.Integer(), primary_key=True, autoincrement=False))
    admission_held: bool
    execution_held: bool
    package_digest: str | None = Field(sa_column=sa.Column(sa.Text(), sa.ForeignKey("packages.digest"), nullable=True))


class RunRow(SQLModel, table=True):
    """A run; it is live while `ended_at` is null, `running` while a claim on it stands.

    `blocked`: it waits for an executor that is made of other things than the one that gave it up.
    """

    __tablename__ = "runs"

    run_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), primary_key=True))
    workflow_id: str = Field(sa_column=_text())
    workflow_version: str = Field(sa_column=_text())
    definition_digest: str = Field(sa_column=_text())
    binding_digest: str = Field(sa_column=_text())
    step: str | None = Field(sa_column=_text(nullable=True))
    state: str = Field(sa_column=_text())
    input: str = Field(sa_column=_text())
    output: str | None = Field(sa_column=_text(nullable=True))
    outcome: str | None = Field(sa_column=_text(nullable=True))
    failure_code: str | None = Field(sa_column=_text(nullable=True))
    admitted_at: int = Field(sa_column=_big())
    deadline_at: int = Field(sa_column=_big())
    next_due_at: int | None = Field(sa_column=_big(nullable=True))
    ended_at: int | None = Field(sa_column=_big(nullable=True))
    uncertain: bool
    cancel_requested: bool
    restore_review_required: bool
    blocked: bool = Field(sa_column=sa.Column(sa.Boolean(), server_default=sa.false(), nullable=False))

    __table_args__ = (
        Index("runs_by_state", "state", "run_id"),
        Index(
            "runs_live_by_binding",
            "workflow_id",
            "binding_digest",
            sqlite_where=sa.text("ended_at IS NULL"),
            postgresql_where=sa.text("ended_at IS NULL"),
        ),
        Index(
            "runs_by_due",
            "next_due_at",
            sqlite_where=sa.text("next_due_at IS NOT NULL"),
            postgresql_where=sa.text("next_due_at IS NOT NULL"),
        ),
        Index(
            "runs_uncertain",
            "run_id",
            sqlite_where=sa.text("uncertain"),
            postgresql_where=sa.text("uncertain"),
        ),
    )


class AdmissionRow(SQLModel, table=True):
    """An event's identity and the run that it stands for.

    Both keys begin with what differs from row to row, so that an index is searched by one comparison a step.
    """

    __tablename__ = "admissions"
    __table_args__ = (
        PrimaryKeyConstraint("event_id", "source", "trigger", "workflow"),
        UniqueConstraint("idempotency_key", "source", "trigger", "workflow", name="admissions_by_key"),
    )

    workflow: str = Field(sa_column=_text())
    trigger: str = Field(sa_column=_text())
    source: str = Field(sa_column=_text())
    event_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), nullable=False))
    idempotency_key: str = Field(sa_column=_text())
    event_digest: str = Field(sa_column=_text())
    run_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("runs.run_id"), nullable=False))


class StartRow(SQLModel, table=True):
    """The key of a run that was begun by hand."""

    __tablename__ = "starts"

    idempotency_key: str = Field(sa_column=_text(primary_key=True))
    request_digest: str = Field(sa_column=_text())
    run_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("runs.run_id"), nullable=False))


class OutboxRow(SQLModel, table=True):
    """A new run for an executor, in commit order; who takes it deletes the row, and its number is never given again."""

    __tablename__ = "outbox"
    __table_args__ = ({"sqlite_autoincrement": True},)

    seq: int | None = Field(
        default=None,
        sa_column=sa.Column(sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    )
    run_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("runs.run_id"), nullable=False))
    kind: str = Field(sa_column=_text())
    created_at: int = Field(sa_column=_big())


class ClaimRow(SQLModel, table=True):
    """A run in an executor's hands; a number is never given again, so that a claim which was lost is known by it."""

    __tablename__ = "claims"
    __table_args__ = (UniqueConstraint("run_id", name="claims_by_run"), {"sqlite_autoincrement": True})

    seq: int | None = Field(
        default=None,
        sa_column=sa.Column(sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    )
    run_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("runs.run_id"), nullable=False))
    executor: str = Field(sa_column=_text())


class ExecutorRow(SQLModel, table=True):
    """An executor, and how often it has given a sign of life."""

    __tablename__ = "executors"

    name: str = Field(sa_column=_text(primary_key=True))
    beats: int = Field(sa_column=_big())


class StepRow(SQLModel, table=True):
    """A step that a run has reached, and what it left; `place` numbers a run's steps as it reached them.

    `type` is null until an executor that can read the definition has told it, `body` is JSON text. `tries` counts how
    often the step was taken up since something came of it; `repeat_accepted`: a person wants it tried again.
    """

    __tablename__ = "steps"

    run_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("runs.run_id"), primary_key=True))
    step: str = Field(sa_column=_text(primary_key=True))
    place: int
    type: str | None = Field(sa_column=_text(nullable=True))
    state: str = Field(sa_column=_text())
    tries: int
    repeat_accepted: bool
    status: int | None
    body: str | None = Field(sa_column=_text(nullable=True))
    ended_at: int | None = Field(sa_column=_big(nullable=True))


class CommandRow(SQLModel, table=True):
    """What a call sends, as it was prepared before it was sent first; `headers` is JSON text."""

    __tablename__ = "commands"

    run_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("runs.run_id"), primary_key=True))
    step: str = Field(sa_column=_text(primary_key=True))
    key: str = Field(sa_column=_text())
    connection: str = Field(sa_column=_text())
    recovery: str = Field(sa_column=_text())
    method: str = Field(sa_column=_text())
    url: str = Field(sa_column=_text())
    headers: str = Field(sa_column=_text())
    body: bytes | None = Field(sa_column=sa.Column(sa.LargeBinary(), nullable=True))


class AttemptRow(SQLModel, table=True):
    """One try of a step; it is under way while `ended_at` is null."""

    __tablename__ = "attempts"

    run_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("runs.run_id"), primary_key=True))
    step: str = Field(sa_column=_text(primary_key=True))
    number: int = Field(sa_column=sa.Column(sa.Integer(), primary_key=True, autoincrement=False))
    kind: str = Field(sa_column=_text())
    started_at: int = Field(sa_column=_big())
    ended_at: int | None = Field(sa_column=_big(nullable=True))
    result: str | None = Field(sa_column=_text(nullable=True))
    http_status: int | None


class JoinTokenRow(SQLModel, table=True):
    """A join token, known by its secret's hash; the join that bears its id has spent it."""

    __tablename__ = "join_tokens"
    __table_args__ = (UniqueConstraint("secret_hash", name="join_tokens_by_secret"),)

    token_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), primary_key=True))
    secret_hash: str = Field(sa_column=_text())
    name: str | None = Field(sa_column=_text(nullable=True))
    created_at: int = Field(sa_column=_big())
    expires_at: int = Field(sa_column=_big())
    revoked_at: int | None = Field(sa_column=_big(nullable=True))


class JoinRow(SQLModel, table=True):
    """A node's join; it is live while `ended_at` is null.

    `approval` numbers the approvals, which a clock cannot. `beats` counts the reports that its turn took, `last_seq`
    the log lines ever stored, `recent_keys` are the last idempotency keys and what each stood for.
    """

    __tablename__ = "joins"

    join_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), primary_key=True))
    token_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("join_tokens.token_id"), nullable=False))
    pin: str = Field(sa_column=_text())
    name: str = Field(sa_column=_text())
    role: str = Field(sa_column=_text())
    address: str = Field(sa_column=_text())
    peer_urls: str | None = Field(sa_column=_text(nullable=True))
    state: str = Field(sa_column=_text())
    in_turn: bool
    approval: int | None = Field(sa_column=_big(nullable=True))
    registered_at: int = Field(sa_column=_big())
    expires_at: int = Field(sa_column=_big())
    approved_at: int | None = Field(sa_column=_big(nullable=True))
    turn_started_at: int | None = Field(sa_column=_big(nullable=True))
    ended_at: int | None = Field(sa_column=_big(nullable=True))
    failure: str | None = Field(sa_column=_text(nullable=True))
    certificate_expires_at: int = Field(sa_column=_big())
    beats: int = Field(sa_column=_big())
    last_seq: int = Field(sa_column=_big())
    recent_keys: str = Field(sa_column=_text())

    __table_args__ = (
        UniqueConstraint("token_id", name="joins_by_token"),
        UniqueConstraint("approval", name="joins_by_approval"),
        Index("joins_by_state", "state", "join_id"),
        Index(
            "joins_live_by_name",
            "name",
            unique=True,
            sqlite_where=sa.text("ended_at IS NULL"),
            postgresql_where=sa.text("ended_at IS NULL"),
        ),
        Index(
            "joins_in_turn",
            "in_turn",
            unique=True,
            sqlite_where=sa.text("in_turn"),
            postgresql_where=sa.text("in_turn"),
        ),
    )


class JoinStepRow(SQLModel, table=True):
    """A step of a join's plan, at its place, and how far it is."""

    __tablename__ = "join_steps"

    join_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("joins.join_id"), primary_key=True))
    step: str = Field(sa_column=_text(primary_key=True))
    place: int
    status: str = Field(sa_column=_text())
    message: str | None = Field(sa_column=_text(nullable=True))
    started_at: int | None = Field(sa_column=_big(nullable=True))
    ended_at: int | None = Field(sa_column=_big(nullable=True))


class JoinRaftRow(SQLModel, table=True):
    """How a join stands with one raft; the state is also what is still to be done there.

    `reached` numbers the rafts of a join as it reached them, `before` are the raft's members before it.
    """

    __tablename__ = "join_rafts"

    join_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("joins.join_id"), primary_key=True))
    raft: str = Field(sa_column=_text(primary_key=True))
    place: int
    kind: str = Field(sa_column=_text())
    state: str = Field(sa_column=_text())
    reached: int
    before: str | None = Field(sa_column=_text(nullable=True))
    member_id: str | None = Field(sa_column=_text(nullable=True))
    peers: str = Field(sa_column=_text())
    error: str | None = Field(sa_column=_text(nullable=True))


class JoinLinesRow(SQLModel, table=True):
    """Log lines of a join that were stored together, as one JSON text; `last_seq` is the number of the last of them."""

    __tablename__ = "join_lines"

    join_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), sa.ForeignKey("joins.join_id"), primary_key=True))
    last_seq: int = Field(sa_column=sa.Column(sa.BigInteger(), primary_key=True, autoincrement=False))
    lines: str = Field(sa_column=_text())


class LedgerMemberRow(SQLModel, table=True):
    """A member of a raft whose membership is kept here."""

    __tablename__ = "ledger_members"

    raft: str = Field(sa_column=_text(primary_key=True))
    member_id: UUID = Field(sa_column=sa.Column(sa.Uuid(), primary_key=True))
    name: str = Field(sa_column=_text())
    peer_urls: str = Field(sa_column=_text())
    learner: bool


class InstallConfigRow(SQLModel, table=True):
    """The config that the next attempt installs: `text` as it came, a JSON string, and its `value`, which is JSON."""

    __tablename__ = "install_config"
    __table_args__ = (sa.CheckConstraint("id = 1", name="install_config_one_row"),)

    id: int = Field(sa_column=sa.Column(sa.Integer(), primary_key=True, autoincrement=False))
    media_type: str = Field(sa_column=_text())
    text: str = Field(sa_column=_text())
    value: str = Field(sa_column=_text())


class InstallAttemptRow(SQLModel, table=True):
    """An attempt to install; `steps` is a JSON text, of each its name, status, begin and end, in the plan's order."""

    __tablename__ = "install_attempts"

    attempt: int = Field(sa_column=_number())
    state: str = Field(sa_column=_text())
    steps: str = Field(sa_column=_text())
    started_at: int = Field(sa_column=_big())
    ended_at: int | None = Field(sa_column=_big(nullable=True))
    detail: str | None = Field(sa_column=_text(nullable=True))
    verdict_id: int | None = Field(sa_column=_big(nullable=True))

    __table_args__ = (
        Index(
            "install_attempts_running",
            "state",
            unique=True,
            sqlite_where=sa.text("state = 'running'"),
            postgresql_where=sa.text("state = 'running'"),
        ),
    )


class InstallStreamRow(SQLModel, table=True):
    """Where the stream of install events ends: the last id that was given, and the bytes of all bodies."""

    __tablename__ = "install_stream"
    __table_args__ = (sa.CheckConstraint("id = 1", name="install_stream_one_row"),)

    id: int = Field(sa_column=sa.Column(sa.Integer(), primary_key=True, autoincrement=False))
    last_id: int = Field(sa_column=_big())
    length: int = Field(sa_column=_big())


class InstallEventRow(SQLModel, table=True):
    """An install event, by its place in the stream; `begins` is the bytes of all bodies before it, `body` JSON text."""

    __tablename__ = "install_events"

    id: int = Field(sa_column=_number())
    attempt: int = Field(
        sa_column=sa.Column(sa.BigInteger(), sa.ForeignKey("install_attempts.attempt"), nullable=False)
    )
    type: str = Field(sa_column=_text())
    begins: int = Field(sa_column=_big())
    body: str = Field(sa_column=_text())


class InstallAddressRow(SQLModel, table=True):
    """What an address has tried with the install code: wrong ones in a row, and when it last gave the right one."""

    __tablename__ = "install_addresses"

    address: str = Field(sa_column=_text(primary_key=True))
    failures: int
    locked_until: int = Field(sa_column=_big())
    last_at: int = Field(sa_column=_big())
    passed_at: int | None = Field(sa_column=_big(nullable=True))


class AuditRow(SQLModel, table=True):
    """One link of a node's audit chain; `body` is canonical JSON text."""

    __tablename__ = "audit"
    __table_args__ = ({"sqlite_with_rowid": False},)

    node: str = Field(sa_column=_text(primary_key=True))
    seq: int = Field(sa_column=sa.Column(sa.BigInteger(), primary_key=True, autoincrement=False))
    prev_hash: str = Field(sa_column=_text())
    hash: str = Field(sa_column=_text())
    at: int = Field(sa_column=_big())
    action: str = Field(sa_column=_text())
    subject: str = Field(sa_column=_text())
    body: str = Field(sa_column=_text())


class AuditHeadRow(SQLModel, table=True):
    """Where a node's chain ends, and the length in bytes of the file that holds the whole chain."""

    __tablename__ = "audit_heads"

    node: str = Field(sa_column=_text(primary_key=True))
    seq: int = Field(sa_column=_big())
    hash: str = Field(sa_column=_text())
    length: int = Field(sa_column=_big())
