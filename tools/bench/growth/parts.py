"""What a part of the growth measurement found: rows of figures, and the promises that hold them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple

from rich.table import Table

from tools.bench.tables import LOAD_SHARE

# The figures that are of one processor's time, all that a load of one thread has.
LOAD_SHARES: Final = ("load_share", "live_load_share")


class Column(NamedTuple):
    """How a figure of each row is shown: its heading, and the digits after the point."""

    figure: str
    heading: str
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Promise:
    """A figure that has to stay within its bound; `why` says what the bound leaves room for.

    It is None where the system does not tell it.
    """

    what: str
    value: float | None
    sense: Literal["at least", "at most"]
    bound: float
    why: str

    @property
    def held(self) -> bool:
        """Whether it is; what is not known breaks no promise."""
        if self.value is None:
            return True
        return self.value >= self.bound if self.sense == "at least" else self.value <= self.bound

    @property
    def failure(self) -> str:
        """What to say where it is not."""
        return f"{self.what} is {_shown(self.value, 2)}, {self.sense} {self.bound:g} is promised"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One table: each row has its name and its figures, of which some may be unknown."""

    title: str
    columns: Sequence[Column]
    rows: Mapping[str, Mapping[str, float | None]]
    promises: Sequence[Promise]
    note: str

    def tables(self) -> list[Table | str]:
        """The figures, the promises, and what a reader of both has to know."""
        return [self._figures(), self._promises(), *self._overworked(), f"{self.note}\n"]

    def document(self) -> dict[str, Any]:
        """The figures as they were measured, and the promises."""
        return {
            "title": self.title,
            "rows": self.rows,
            "promises": [asdict(promise) | {"held": promise.held} for promise in self.promises],
            "note": self.note,
        }

    def failures(self) -> list[str]:
        """One line for each promise that is not held."""
        return [promise.failure for promise in self.promises if not promise.held]

    def _figures(self) -> Table:
        table = Table(title=self.title)
        table.add_column("")
        for column in self.columns:
            table.add_column(column.heading, justify="right")
        for name, figures in self.rows.items():
            table.add_row(name, *(_shown(figures.get(column.figure), column.digits) for column in self.columns))
        return table

    def _promises(self) -> Table:
        table = Table()
        for heading in ("promise", "", "bound", "held", "why this bound"):
            table.add_column(heading)
        for promise in self.promises:
            held = "[green]yes[/green]" if promise.held else "[red]no[/red]"
            bound = f"{promise.sense} {promise.bound:g}"
            table.add_row(promise.what, _shown(promise.value, 2), bound, held, promise.why)
        return table

    def _overworked(self) -> list[str]:
        return [
            f"[yellow]{name}: the load had no time left, and may be what was measured[/yellow]"
            for name, figures in self.rows.items()
            if any((figures.get(share) or 0.0) > LOAD_SHARE for share in LOAD_SHARES)
        ]


def _shown(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"


def quotient(above: float | None, below: float | None) -> float | None:
    """How many times as much one figure is as another; None where one is not known or there is nothing to divide by."""
    return above / below if above is not None and below else None


def difference(of: float | None, less: float | None) -> float | None:
    """By how much one figure is more than another; None where one is not known."""
    return None if of is None or less is None else of - less


def megabytes(count: int | None) -> float | None:
    """Bytes as MB; None stays None."""
    return None if count is None else count / 1e6
