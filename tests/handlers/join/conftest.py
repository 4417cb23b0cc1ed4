from __future__ import annotations

import pytest

from handlers.join.certificates import Authority
from storage.database import Storage
from tests.handlers.join.house import House
from tests.support.nodes import another_authority


@pytest.fixture(scope="session")
def founder() -> Authority:
    """The authority of the server that the nodes join."""
    return another_authority()


@pytest.fixture(scope="session")
def stranger() -> Authority:
    """The authority of another server."""
    return another_authority()


@pytest.fixture
def house(storage: Storage, founder: Authority) -> House:
    """Join over the test's own storage."""
    return House(storage, founder)
