"""How much is tried where more tries prove more: all of it in CI, elsewhere what `make test` has the time for."""

from __future__ import annotations

import os
from typing import Final

import pytest

THOROUGH: Final = os.environ.get("CI") == "true"
in_ci_alone = pytest.mark.skipif(not THOROUGH, reason="it takes long; CI runs it")


def tries(in_ci: int, elsewhere: int) -> int:
    """Return how often to try."""
    return in_ci if THOROUGH else elsewhere
