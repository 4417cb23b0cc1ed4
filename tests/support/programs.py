"""Programs that a fresh machine lacks; `.ci/run` installs them, so in CI a missing one is a failure."""

from __future__ import annotations

import shutil

import pytest

from tests.support.effort import THOROUGH


def needs(program: str) -> pytest.MarkDecorator:
    """Skip a test where `program` is not installed, but never in CI."""
    absent = shutil.which(program) is None and not THOROUGH
    return pytest.mark.skipif(absent, reason=f"{program} is not installed; CI installs it")
