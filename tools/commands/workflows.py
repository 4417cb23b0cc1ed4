"""`gatehouse workflows`: checks a package, makes it the active one of a database, and lists those that were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from handlers.coordinator.workflows import package as packages
from handlers.coordinator.workflows.package import Package, RefusedPackageError
from handlers.gateway.times import rfc3339
from storage.database import Storage
from storage.workflows import Applied, Definition, DefinitionConflict
from storage.workflows import Package as StoredPackage
from tools.commands import database
from tools.commands.folder import opened
from tools.commands.terminal import ConfigOption, Machine, RefusedError, StateOption, emit, findings, group
from tools.settings import Settings
from tools.state import DEFAULT_FOLDER, StateFolder

app = group()

TAKEN_UP: Final = (
    "a running server takes it up at the next new event, which is answered 409 deployment.activation-changed once"
    " and can be sent again"
)

PackageArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the package.")]


@app.command()
def check(package: PackageArgument, *, machine: Machine = False) -> None:
    """Tell every fault of a package, by file, line and column.

    A package is a folder of workflow files. The first start puts one that works into `workflows` in the state folder;
    handlers/coordinator/workflows/format.py describes every member of a file.
    """
    found = packages.check(package)
    findings([asdict(each) for each in found], [str(each) for each in found], f"{package} is a package", machine)


@app.command()
def apply(
    package: PackageArgument,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Even where a workflow's id and version stood for another definition before; events of this workflow"
            " are then refused with definition.refused.",
        ),
    ] = False,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    machine: Machine = False,
) -> None:
    """Store a package and make it the active one.

    A package is a folder of workflow files. The first start puts one that works into `workflows` in the state folder;
    handlers/coordinator/workflows/format.py describes every member of a file.
    """
    loaded = _loaded(package)
    folder, settings = opened(state, config)
    applied = database.run(folder, settings, lambda storage: _apply(storage, loaded, force=force))
    value = {"digest": applied.digest, "appliedAt": rfc3339(applied.applied_at)}
    lines = f"{applied.digest} is active since {value['appliedAt']}\n{TAKEN_UP}"
    emit(machine, value, lambda console: console.print(lines))


@app.command("list")
def list_packages(
    *, state: StateOption = DEFAULT_FOLDER, config: ConfigOption = None, machine: Machine = False
) -> None:
    """List the packages that were applied, the latest first."""
    folder, settings = opened(state, config)
    stored = database.run(folder, settings, lambda storage: storage.workflows.list())
    emit(machine, {"packages": [_value(each) for each in stored]}, lambda console: _show(console, stored))


def apply_first(folder: StateFolder, settings: Settings) -> None:
    """Make the package of a state folder the active one where none is yet.

    Raises RefusedError and UnreachableError.
    """

    async def work(storage: Storage) -> None:
        if await storage.workflows.active() is None:
            await _apply(storage, _loaded(folder.workflows), force=False)

    database.run(folder, settings, work)


async def _apply(storage: Storage, package: Package, *, force: bool) -> Applied:
    definitions = [Definition(each.id, each.version, each.digest) for each in package.workflows.values()]
    outcome = await storage.workflows.apply(package.digest, package.snapshot, definitions, force=force)
    if isinstance(outcome, DefinitionConflict):
        raise _conflict(outcome.definitions)
    return outcome


def _conflict(definitions: Sequence[Definition]) -> RefusedError:
    names = ", ".join(f"{each.workflow_id} version {each.version}" for each in definitions)
    detail = (
        f"{names}: stood for another definition before; give a new version, or apply it all the same with --force:"
        " events of this workflow are then refused with definition.refused"
    )
    return RefusedError(detail, {"error": "definitions", "definitions": [_definition(each) for each in definitions]})


def _loaded(folder: Path) -> Package:
    try:
        return packages.load(folder)
    except RefusedPackageError as error:
        detail = "\n  ".join([f"{folder} is no package:", *map(str, error.findings)])
        raise RefusedError(
            detail, {"error": "package", "findings": [asdict(each) for each in error.findings]}
        ) from None


def _value(package: StoredPackage) -> dict[str, Any]:
    return {
        "digest": package.digest,
        "active": package.active,
        "appliedAt": rfc3339(package.applied_at),
        "workflows": [_definition(each) for each in package.definitions],
    }


def _definition(definition: Definition) -> dict[str, str]:
    return {"id": definition.workflow_id, "version": definition.version, "digest": definition.digest}


def _show(console: Console, stored: Sequence[StoredPackage]) -> None:
    table = Table("digest", "", "applied", "workflows", box=None)
    for package in stored:
        names = ", ".join(f"{each.workflow_id} {each.version}" for each in package.definitions)
        table.add_row(package.digest, "active" if package.active else "", rfc3339(package.applied_at), names)
    console.print(table if stored else "no package was applied")
