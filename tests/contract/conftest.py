from __future__ import annotations

import pytest

from tests.contract.worlds import World
from tests.support.gatehouse import Gatehouse, NewServer


@pytest.fixture(scope="module")
def world(server: Gatehouse, new_server: NewServer) -> World:
    return World(server, new_server)
