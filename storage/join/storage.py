"""The part of storage that join works with."""

from __future__ import annotations

from storage.join.events import Events
from storage.join.ledger import Ledger
from storage.join.rafts import Rafts
from storage.join.registrations import Registrations
from storage.join.tokens import Tokens
from storage.readers import Readers
from storage.statements import Spelling
from storage.writer import Writer


class JoinStorage:
    """Its aggregates, which share the writer and the readers of one Storage."""

    def __init__(self, writer: Writer, readers: Readers, spelling: Spelling) -> None:
        self.tokens = Tokens(writer, readers)
        self.registrations = Registrations(writer, readers)
        self.events = Events(writer, readers, spelling)
        self.rafts = Rafts(writer, readers)
        self.ledger = Ledger(writer, readers)
