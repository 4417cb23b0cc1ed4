"""All aggregates of a database, which share one writer and some readers."""

from __future__ import annotations

import sqlalchemy as sa

from storage.admission import RunStatements
from storage.doctor import Doctor
from storage.events import Admissions
from storage.execution.storage import ExecutionStorage
from storage.holds import Holds
from storage.installer.storage import InstallerStorage
from storage.join.storage import JoinStorage
from storage.readers import Readers
from storage.runs import Runs
from storage.statements import Spelling
from storage.workflows import Workflows
from storage.writer import Writer


class Aggregates:
    """The doors to what is stored; each statement is spelled once for the dialect."""

    def __init__(self, writer: Writer, readers: Readers, dialect: sa.Dialect, *, recovery_only: bool) -> None:
        spelling = Spelling(dialect)
        statements = RunStatements(spelling)
        self.admissions = Admissions(writer, spelling, statements, recovery_only=recovery_only)
        self.runs = Runs(writer, readers, statements, recovery_only=recovery_only)
        self.holds = Holds(writer, readers)
        self.workflows = Workflows(writer, readers)
        self.execution = ExecutionStorage(writer, readers, spelling)
        self.join = JoinStorage(writer, readers, spelling)
        self.installer = InstallerStorage(writer, readers, spelling)
        self.doctor = Doctor(readers)
