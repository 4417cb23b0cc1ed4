"""What the bench measures only where it is asked for that: each in a module of its own, imported when it is called.

Such a module has `measure(folder, say)`, which works in a folder that is gone afterwards, says how it goes on, and
raises BenchError where it cannot measure.
"""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, Literal, Protocol, cast

from rich.console import Console
from rich.table import Table

from tools.bench import kept
from tools.bench.document import machine
from tools.bench.servers import BenchError

Apart = Literal["growth", "overload", "profile"]
APART: Final[Mapping[Apart, str]] = {
    "growth": "tools.bench.growth",
    "overload": "tools.bench.overload",
    "profile": "tools.bench.profiles",
}


class Measured(Protocol):
    """What came of it."""

    def table(self) -> Table:
        """The figures for people."""

    def document(self) -> dict[str, Any]:
        """The figures for machines; a `date`, where there is one, is the one that they are kept by."""

    def failures(self) -> list[str]:
        """One line for each promise that is not held."""


def run(what: Apart, *, as_json: bool = False) -> int:
    """Measure, print the table (or the JSON document) and keep the document in bench-results/.

    Returns the exit code: 0 where every promise is held, 1 where one is not or the bench cannot measure.
    """
    progress = Console(stderr=True)
    try:
        with kept.work_folder() as folder:
            measured = cast("Measured", import_module(APART[what]).measure(folder, progress.print))
    except BenchError as error:
        progress.print(f"[red]{error}[/red]")
        return 1
    failures = measured.failures()
    document = {"date": kept.now(), "machine": machine(), **measured.document(), "failures": failures}
    file = kept.keep(document, what)
    output = Console()
    if as_json:
        output.print_json(json.dumps(document))
        return 1 if failures else 0
    output.print(measured.table())
    for line in failures:
        output.print(f"[red]not held: {line}[/red]")
    output.print(f"kept in {file}")
    return 1 if failures else 0
