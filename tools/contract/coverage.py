"""What of the documents was seen and what was not, and the table that tells it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from tools.contract.document import Cell


class Share(NamedTuple):
    """How many there are of something, and how many of them were seen."""

    seen: int
    documented: int

    def __str__(self) -> str:
        return f"{self.seen}/{self.documented}"


class Coverage:
    """All that documents promise, against what was met."""

    def __init__(self, promised: Iterable[Cell], met: Collection[Cell]) -> None:
        self.promised = tuple(dict.fromkeys(promised))
        self._met = frozenset(met)

    @property
    def unseen(self) -> list[Cell]:
        """What nobody met, in the order of the documents."""
        return [cell for cell in self.promised if cell not in self._met]

    @property
    def share(self) -> Share:
        """How much of all was met."""
        return self._of(self.promised)

    @property
    def value(self) -> dict[str, Any]:
        """The coverage as JSON."""
        return {
            "documented": len(self.promised),
            "seen": self.share.seen,
            "cells": [{**cell._asdict(), "seen": cell in self._met} for cell in self.promised],
        }

    def lines(self) -> Iterator[str]:
        """Give the table for a person: a line an operation, then each thing that was not seen."""
        rows = [("document", "operation", "answers", "headers"), *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows:
            yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for cell in self.unseen:
            yield f"not seen: {described(cell)}"
        seen, documented = self.share
        yield f"{seen} of {documented} documented answers and headers seen, {percent(seen, documented)} %"

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        for document, operation in dict.fromkeys((cell.document, cell.operation) for cell in self.promised):
            own = [cell for cell in self.promised if (cell.document, cell.operation) == (document, operation)]
            answers, headers = self._of(c for c in own if not c.header), self._of(c for c in own if c.header)
            yield document, operation, str(answers), str(headers)

    def _of(self, cells: Iterable[Cell]) -> Share:
        met = [cell in self._met for cell in cells]
        return Share(sum(met), len(met))


def described(cell: Cell) -> str:
    """Name a thing that a document promises."""
    what = f"header {cell.header}" if cell.header else " ".join(part for part in (cell.code, cell.media) if part)
    return f"{cell.document} {cell.operation} {cell.status} {what or 'without a body'}"


def percent(seen: int, documented: int) -> str:
    """Write a share, and 100 only where it is whole."""
    return "100" if seen == documented else f"{int(1000 * seen / documented) / 10:.1f}"
