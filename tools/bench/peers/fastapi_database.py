"""The database of the FastAPI programs that write: one connection, each commit on disk."""

import os
import sqlite3

from sqlalchemy import Connection, Engine
from sqlalchemy.event import listens_for
from sqlmodel import create_engine


def durable_engine() -> Engine:
    """An engine over the file that BENCH_DATABASE names, whose transactions take the write lock as they begin."""
    engine = create_engine(f"sqlite:///{os.environ['BENCH_DATABASE']}", pool_size=1, max_overflow=0, pool_timeout=60)

    @listens_for(engine, "connect")
    def make_durable(connection: sqlite3.Connection, _: object) -> None:
        """Write-ahead log, every commit on disk; transactions begin where `begin_immediate` says."""
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA busy_timeout = 30000")

    @listens_for(engine, "begin")
    def begin_immediate(connection: Connection) -> None:
        """Take the write lock at once, so that what a transaction reads stays true until it commits."""
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
