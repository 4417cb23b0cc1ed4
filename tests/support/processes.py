"""Whether a process is there, for tests of what starts some."""

from __future__ import annotations

from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        # The latter comes of one that ends between the opening and the reading.
        return False
