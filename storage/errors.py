"""What storage raises when it cannot do its work; what a rule refuses is an outcome (refusals.py)."""

from __future__ import annotations


class StorageError(Exception):
    """The root of every error that storage raises; its text names no SQL, no value and no password."""


class Unavailable(StorageError):
    """The database is away, locked or full, or a COMMIT has an unknown result: the work may stand, ask again later."""


class Broken(Unavailable):
    """The SQLite file is no database or a damaged one, which no waiting mends; raised where a database is opened."""


class Overloaded(StorageError):
    """More work waits than the bound allows; nothing was done and nothing will be."""


class AuditUnavailable(StorageError):
    """The audit file cannot be written: this batch's work stands, or was refused before its transaction began."""


class Unstorable(StorageError):
    """This piece of work alone cannot be stored, for a reason that no rule foresaw; `__cause__` has it."""


class SchemaOutOfDate(StorageError):
    """The database is not at the revision that this code was written for; the text says which command mends it."""
