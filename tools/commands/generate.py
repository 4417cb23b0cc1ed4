"""`gatehouse generate`: makes generated/ from spec/, or the first lines of a handler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tools import generator
from tools.commands.terminal import Machine, RefusedError, emit, group
from tools.generator import DocumentError, Finding, Stub, StubError, TargetError

app = group()


@app.command()
def generate(
    *,
    stub: Annotated[str | None, typer.Option(metavar="OPERATION", help="Write its handler and test instead.")] = None,
    spec: Annotated[Path, typer.Option(metavar="DIR", help="The documents.")] = Path("spec"),
    target: Annotated[Path, typer.Option(metavar="DIR", help="The generated code.")] = Path("generated"),
    machine: Machine = False,
) -> None:
    """Make the generated code whole: what the documents of spec/ say, and nothing else."""
    try:
        if stub is not None:
            _stub(generator.stub(spec, spec.absolute().parent, stub), machine)
        else:
            _generated(generator.generate(spec, target), target, machine)
    except (DocumentError, StubError, TargetError) as error:
        raise RefusedError(str(error)) from None


def _generated(findings: list[Finding], target: Path, machine: bool) -> None:
    value = {"mended": [{"path": finding.path, "was": finding.kind} for finding in findings]}

    def show(console: Console) -> None:
        for finding in findings:
            console.print(f"{finding.path} was {finding.kind}")
        console.print(f"{target}/ is what the documents say")

    emit(machine, value, show)


def _stub(made: Stub, machine: bool) -> None:
    value = {
        "written": [str(file) for file in made.written],
        "serviceImport": made.service_import,
        "serviceLine": made.service_line,
    }

    def show(console: Console) -> None:
        for file in made.written:
            console.print(f"wrote into {file}")
        console.print(f"{made.service} needs two lines:")
        console.print(f"{made.service_import}\n        {made.service_line}")

    emit(machine, value, show)
