"""How Alembic runs the migrations: on the connection it is handed, inside the transaction that its owner began."""

from __future__ import annotations

from alembic import context

from storage.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
