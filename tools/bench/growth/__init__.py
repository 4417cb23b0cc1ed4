"""What grows with what a server has stored and with who reads from it, and what does not: `gatehouse bench growth`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from tools.bench import load
from tools.bench.growth import admission, joins, readers, replays
from tools.bench.growth.parts import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """All parts of one measurement, made at a time in RFC 3339."""

    date: str
    parts: Sequence[Part]

    def table(self) -> Table:
        """The tables of all parts beneath one another, each with its promises and its note."""
        grid = Table.grid()
        grid.title = f"Growth; {self.date}"
        for part in self.parts:
            for each in part.tables():
                grid.add_row(each)
        return grid

    def document(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "date": self.date,
            "parts": [part.document() for part in self.parts],
            "failures": self.failures(),
        }

    def failures(self) -> list[str]:
        """One line for each promise that is not held."""
        return [line for part in self.parts for line in part.failures()]


def measure(folder: Path, say: Callable[[str], None]) -> Growth:
    """Measure every part in a folder of its own within `folder`, of whose disk it needs 5 GB.

    It takes about six minutes, two of them to fill the state folders. Raises BenchError where a part cannot be trusted.
    """
    load.wrk()
    parts = (
        admission.measure(folder / "growth-admission", say),
        joins.measure(folder / "growth-joins", say),
        replays.measure(folder / "growth-replays", say),
        readers.measure(folder / "growth-readers", say),
    )
    return Growth(date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), parts=parts)
