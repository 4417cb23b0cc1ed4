"""The plan of an install: the steps of install-plan.yaml, read anew for each attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from handlers.steps import plan
from handlers.steps.plan import PlanError, Step

# What is read of a file that is none of ours.
_MAX_BYTES: Final = 1 << 20


def load(file: Path) -> tuple[Step, ...]:
    """Read the steps in their order; raises PlanError, which tells all that is wrong."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(_MAX_BYTES)
    except OSError as error:
        raise PlanError([f"{file.name}: {error.strerror}"]) from None
    steps = plan.parse(raw, file.name)
    if not steps:
        raise PlanError([f"{file.name}:1:1: steps must have at least one"])
    return steps
