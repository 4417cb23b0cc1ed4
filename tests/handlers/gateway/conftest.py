from __future__ import annotations

from collections.abc import Iterator

import pytest

from handlers.gateway import reply
from tests.handlers.gateway.certificates import Certificates
from tests.handlers.gateway.serving import Served


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def control() -> Iterator[Served]:
    """The control listener, without TLS."""
    with Served("control") as served:
        yield served


@pytest.fixture(scope="module")
def join(certificates: Certificates) -> Iterator[Served]:
    """The join listener, which asks for a client certificate."""
    with Served("join", certificates.server()) as served:
        yield served


@pytest.fixture
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop what nobody wants for a moment only, so that the end of a connection is not waited for."""
    monkeypatch.setattr(reply, "LINGER_SECONDS", 0.05)
