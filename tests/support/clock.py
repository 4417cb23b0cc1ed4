"""A clock that can be stepped, for servers and all processes that they start."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

# Steps the clock by as many nanoseconds as a file says; Python runs it at the start of the process.
_STEPPED: Final = """
import pathlib, time
step, seconds, nanoseconds = pathlib.Path(__file__).with_name("step"), time.time, time.time_ns
time.time = lambda: seconds() + int(step.read_text()) / 1e9
time.time_ns = lambda: nanoseconds() + int(step.read_text())
"""


class Clock:
    """The wall clock of the processes in whose environment it is; it is right until it is set."""

    def __init__(self, folder: Path) -> None:
        (folder / "sitecustomize.py").write_text(_STEPPED)
        self._step = folder / "step"
        self.environment = {"PYTHONPATH": str(folder)}
        self.set(timedelta())

    def set(self, step: timedelta) -> None:
        """Step the clock to that far from ours; there is no moment at which the file has no number."""
        fresh = self._step.with_name("fresh")
        fresh.write_text(str(step // timedelta(microseconds=1) * 1_000))
        fresh.replace(self._step)
