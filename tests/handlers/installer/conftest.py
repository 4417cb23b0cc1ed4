from __future__ import annotations

from pathlib import Path

import pytest

from storage.database import Storage
from tests.handlers.installer.machine import Machine


@pytest.fixture
def machine(storage: Storage, tmp_path: Path) -> Machine:
    """An installer over the test's own storage."""
    return Machine(storage, tmp_path)
