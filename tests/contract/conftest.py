from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.worlds import World
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.installs import Machine
from tests.support.nodes import Node
from tests.support.receivers import Receiver


@pytest.fixture(scope="module")
def world(server: Gatehouse, founder: Gatehouse, new_server: NewServer) -> Iterator[World]:
    with Receiver() as receiver:
        yield World(server, founder, new_server, receiver)


@pytest.fixture(scope="session")
def founder(first_state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gatehouse]:
    """A server that the tests of joining share: each gives back the turn that it took."""
    with Gatehouse(shutil.copytree(first_state, tmp_path_factory.mktemp("founder") / "state")) as shared:
        yield shared
        assert "Traceback" not in shared.log
        assert '"level":"error"' not in shared.log


@pytest.fixture
def pending(founder: Gatehouse) -> Iterator[Node]:
    """A node that has registered."""
    node = Node.registered(founder)
    yield node
    node.leave()


@pytest.fixture
def in_turn(founder: Gatehouse) -> Iterator[Node]:
    """A node whose turn it is."""
    node = Node.in_turn(founder)
    yield node
    node.leave()


@pytest.fixture(scope="session")
def machine(first_state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine that the tests of installing share: it has a config, and each leaves no attempt running."""
    state = shutil.copytree(first_state, tmp_path_factory.mktemp("machine") / "state")
    with Gatehouse(state, environment={"GATEHOUSE_INSTALLER_COMMENT_SECONDS": "0.2"}) as shared:
        machine = Machine(shared)
        assert machine.configure().status == 200
        yield machine
        assert "Traceback" not in shared.log
        assert '"level":"error"' not in shared.log
        assert machine.code not in shared.log
