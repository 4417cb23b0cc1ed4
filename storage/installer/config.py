"""The config that an attempt installs, kept as it came; while an attempt runs it cannot be changed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import orjson
import sqlalchemy as sa

from storage.committer import one_by_one
from storage.installer.records import is_running
from storage.readers import Readers
from storage.statements import table
from storage.tables import InstallConfigRow
from storage.transaction import Transaction
from storage.writer import Writer

CONFIG: Final = table(InstallConfigRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConfig:
    """A config: its media type, its `text` as it came, and its `value` as JSON text."""

    media_type: str
    text: str
    value: str

    @property
    def digest(self) -> str:
        """`sha256:` and the digest of the text, as the audit has it."""
        return f"sha256:{hashlib.sha256(self.text.encode()).hexdigest()}"


class Config:
    """Both methods raise Unavailable and Overloaded; put raises AuditUnavailable and Unstorable too."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def get(self) -> StoredConfig | None:
        """The config that was put last."""
        return await self._readers.read(stored_config)

    async def put(self, config: StoredConfig) -> StoredConfig | None:
        """Store a config in place of the former one and return it; None, without doing so, while an attempt runs."""
        return await self._writer.submit(_put_many, config)


def stored_config(connection: sa.Connection) -> StoredConfig | None:
    """The config as it stands in a transaction."""
    row = connection.execute(sa.select(CONFIG.c.media_type, CONFIG.c.text, CONFIG.c.value)).first()
    if row is None:
        return None
    return StoredConfig(media_type=row.media_type, text=orjson.loads(row.text), value=row.value)


def _put(transaction: Transaction, config: StoredConfig) -> StoredConfig | None:
    connection = transaction.connection
    if is_running(connection):
        return None
    connection.execute(CONFIG.delete())
    connection.execute(
        CONFIG.insert().values(
            id=1, media_type=config.media_type, text=orjson.dumps(config.text).decode(), value=config.value
        )
    )
    transaction.record("install-config.stored", "config", {"digest": config.digest, "mediaType": config.media_type})
    return config


_put_many = one_by_one(_put)
