"""The part of storage that the installer works with."""

from __future__ import annotations

from storage.installer.attempts import Attempts
from storage.installer.config import Config
from storage.installer.events import Events
from storage.installer.lock import Lock
from storage.installer.stream import Stream
from storage.readers import Readers
from storage.statements import Spelling
from storage.writer import Writer


class InstallerStorage:
    """Its aggregates, which share the writer and the readers of one Storage."""

    def __init__(self, writer: Writer, readers: Readers, spelling: Spelling) -> None:
        stream = Stream(spelling)
        self.config = Config(writer, readers)
        self.attempts = Attempts(writer, readers, stream)
        self.events = Events(writer, readers, stream, spelling)
        self.lock = Lock(writer, readers, spelling)
