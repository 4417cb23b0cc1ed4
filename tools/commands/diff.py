"""`gatehouse diff`: says what a change of the documents breaks, and for whom."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tools.commands.terminal import REFUSED, Machine, RefusedError, emit, plain
from tools.diff import report
from tools.diff.documents import SourceError, load

app = typer.Typer(add_completion=False)
SPEC = Path("spec")


@app.command()
def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A file, a folder, or a revision of git (REV, REV:PATH).")],
    new: Annotated[str | None, typer.Argument(metavar="NEW", help="The same; by default the folder of --spec.")] = None,
    *,
    spec: Annotated[Path, typer.Option(metavar="DIR", help="The documents, of which a revision is taken.")] = SPEC,
    machine: Machine = False,
) -> None:
    """Tell each change between documents as breaking, risky or safe.

    Exit code 1: a change breaks clients and info.version announces none (a new major; below 1.0.0 a new minor).
    """
    try:
        compared = report.compare(load(old, spec), load(new or str(spec), spec))
    except SourceError as error:
        raise RefusedError(str(error)) from None
    except RecursionError:
        raise RefusedError("the documents are nested too deeply to be compared") from None
    emit(machine, report.value(compared), lambda console: console.print(plain("\n".join(report.lines(compared)))))
    if not all(each.allowed for each in compared):
        raise typer.Exit(REFUSED)
