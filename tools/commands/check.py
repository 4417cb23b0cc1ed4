"""`gatehouse check`: finds what is wrong with documents, generated code, migrations, traffic and servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import storage.migrations
from tools import generator, lint
from tools.commands import contract, traffic
from tools.commands.mutants import mutants
from tools.commands.terminal import Machine, RefusedError, findings, group
from tools.generator import DocumentError

app = group()
app.command()(traffic.traffic)
app.command()(contract.server)
app.command()(mutants)

SpecOption = Annotated[Path, typer.Option(metavar="DIR", help="The documents.")]
SPEC = Path("spec")


@app.callback()
def check() -> None:
    """Find what is wrong with documents, generated code, migrations, traffic and servers."""


@app.command()
def spec(
    *,
    spec: SpecOption = SPEC,
    machine: Machine = False,
) -> None:
    """Hold the documents to what the generator, the gateway and client generators rely on."""
    try:
        found = lint.lint_all(spec)
    except FileNotFoundError as error:
        raise RefusedError(str(error)) from None
    value = [
        {
            "file": str(finding.file),
            "line": finding.line,
            "column": finding.column,
            "pointer": finding.pointer,
            "rule": finding.rule,
            "message": finding.message,
        }
        for finding in found
    ]
    lines = [f"{each.file}:{each.line}:{each.column}: {each.message} [{each.rule}]" for each in found]
    findings(value, lines, f"{spec}/ keeps its rules", machine)


@app.command()
def generated(
    *,
    spec: SpecOption = SPEC,
    target: Annotated[Path, typer.Option(metavar="DIR", help="The generated code.")] = Path("generated"),
    machine: Machine = False,
) -> None:
    """Compare the generated code with what the documents say."""
    try:
        found = generator.check(spec, target)
    except DocumentError as error:
        raise RefusedError(str(error)) from None
    value = [{"path": each.path, "kind": each.kind, "diff": each.diff} for each in found]
    findings(value, [generator.report(found).rstrip()] if found else [], f"{target}/ is what {spec}/ says", machine)


@app.command()
def migrations(*, machine: Machine = False) -> None:
    """Apply the migrations to an empty database and compare it with the tables."""
    found = storage.migrations.check()
    findings([{"message": each} for each in found], found, "the migrations lead to the tables", machine)
