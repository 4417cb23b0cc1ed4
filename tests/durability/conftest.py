from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.durability.ledger import Ledger
from tests.durability.process import Used, used
from tests.durability.slow import SlowClients
from tests.storage.postgresql import Server, serving_or_skipped
from tests.support.gatehouse import Gatehouse, NewServer


def on_postgresql(new_server: NewServer, url: str, **environment: str) -> Gatehouse:
    """A server on an empty PostgreSQL database, which is migrated; it is not started."""
    made = new_server(environment={"GATEHOUSE_DATABASE_URL": url, **environment})
    done = made.run("init", "--migrate", "--state", str(made.state))
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server of these tests' own."""
    with serving_or_skipped() as started:
        yield started


class Besieged(NamedTuple):
    """A server, its slow clients, and what it used before they came."""

    server: Gatehouse
    clients: SlowClients
    before: Used


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[Gatehouse]:
    """A server that the tests of a module bring into trouble one after another, each of which it survives."""
    with new_server() as started:
        yield started


@pytest.fixture(scope="session", autouse=True)
def besieged(first_state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Besieged]:
    """A server whose slow clients begin with the first test of this folder: the last one sees what became of them."""
    server = Gatehouse(shutil.copytree(first_state, tmp_path_factory.mktemp("besieged") / "state"))
    with server:
        # Some descriptors come with the first work.
        assert server.deliver().status == 204
        before = used(server)
        with SlowClients(server.port, of_each_kind=20) as clients:
            yield Besieged(server, clients, before)


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    """The book of the producer that sends to `server`."""
    return Ledger()
