from __future__ import annotations

import pytest

from handlers.join.certificates import Authority
from tools import authority


def new_authority() -> Authority:
    key = authority.new_key()
    return Authority(authority.authority_certificate(key), key)


@pytest.fixture(scope="session")
def founder() -> Authority:
    """The authority of the server that the nodes join."""
    return new_authority()


@pytest.fixture(scope="session")
def stranger() -> Authority:
    """The authority of another server."""
    return new_authority()
