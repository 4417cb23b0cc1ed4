"""The aggregates by which runs are carried out, as one part of storage."""

from __future__ import annotations

from storage.execution.claims import Claims
from storage.execution.journal import Journal
from storage.execution.recovery import Recoveries
from storage.readers import Readers
from storage.statements import Spelling
from storage.writer import Writer


class ExecutionStorage:
    """What an executor writes, and what a person does about a run that does not go on."""

    def __init__(self, writer: Writer, readers: Readers, spelling: Spelling) -> None:
        self.claims = Claims(writer, readers, spelling)
        self.journal = Journal(writer)
        self.recoveries = Recoveries(writer, readers)
