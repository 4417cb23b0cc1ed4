"""`gatehouse workflows`: checks, tests and explains a package, makes it the active one, and lists those that were."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from handlers.coordinator.execution.connection import connections
from handlers.coordinator.scenarios import scenario as scenarios
from handlers.coordinator.scenarios.run import carry_out
from handlers.coordinator.scenarios.scenario import Scenario
from handlers.coordinator.scenarios.verdict import Verdict, judge
from handlers.coordinator.workflows import package as packages
from handlers.coordinator.workflows.active import unpermitted
from handlers.coordinator.workflows.files import Finding
from handlers.coordinator.workflows.package import Package, RefusedPackageError
from handlers.coordinator.workflows.reading import flowchart, ordered, reading
from handlers.coordinator.workflows.reading import told as words
from handlers.coordinator.workflows.workflow import Workflow
from handlers.gateway.times import rfc3339
from storage.database import Storage
from storage.workflows import Applied, Definition, DefinitionConflict
from storage.workflows import Package as StoredPackage
from tools import settings as chosen
from tools.commands import database
from tools.commands.folder import opened, told
from tools.commands.terminal import (
    REFUSED,
    ConfigOption,
    Machine,
    RefusedError,
    StateOption,
    emit,
    findings,
    group,
    plain,
)
from tools.settings import Settings
from tools.state import DEFAULT_FOLDER, StateFolder

app = group()

TAKEN_UP: Final = (
    "a running server takes it up at the next new event, which is answered 409 deployment.activation-changed once"
    " and can be sent again"
)

NOT_PERMITTED: Final = (
    "{workflow} starts no run: {connection} does not permit {method} {path}, under connections in the settings, which"
    " the server reads at its start"
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


@app.command("test")
def run_scenarios(package: PackageArgument, *, machine: Machine = False) -> None:
    """Carry out the scenarios of a package on a virtual clock, and tell what is not as they expect.

    They are the files in its folder `scenarios`; handlers/coordinator/scenarios/format.py describes every member.
    Nothing is sent anywhere, and the code is that of the server.
    """
    loaded = _loaded(package)
    found = scenarios.load(package, loaded)
    if found.findings:
        raise _refused(f"the scenarios of {package} cannot be used:", "scenarios", found.findings)
    verdicts = asyncio.run(_verdicts(found.scenarios, loaded))
    unreached = _unreached(verdicts, loaded)
    value = {"scenarios": [each.value() for each in verdicts], "unreached": unreached}
    emit(machine, value, lambda console: console.print(plain("\n".join(_report(verdicts, unreached)))))
    if not all(each.passed for each in verdicts):
        raise typer.Exit(REFUSED)


@app.command()
def explain(
    package: PackageArgument,
    *,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The settings whose connections say how calls recover."),
    ] = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw each workflow as a Mermaid flowchart.")] = False,
    machine: Machine = False,
) -> None:
    """Tell step by step what the workflows of a package do, and by which ways they end."""
    loaded = _loaded(package)
    with told():
        settings = chosen.load(config) if config else None
    recoveries = {name: each.recovery for name, each in settings.connections.items()} if settings else None
    read = [reading(workflow, recoveries) for _, workflow in _sorted(loaded)]
    pages = [flowchart(workflow) for _, workflow in _sorted(loaded)] if mermaid else [words(each) for each in read]
    text = "\n\n".join("\n".join(page) for page in pages)
    emit(machine, {"workflows": read}, lambda console: console.print(plain(text)))


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
    """Store a package and make it the active one, in place of the one before, whose runs go on.

    A package is a folder of workflow files. The first start puts one that works into `workflows` in the state folder;
    handlers/coordinator/workflows/format.py describes every member of a file.
    """
    loaded = _loaded(package)
    folder, settings = opened(state, config)
    applied, gone = database.run(folder, settings, lambda storage: _replace(storage, loaded, force=force))
    lacking = _lacking(loaded, settings)
    value = {"digest": applied.digest, "appliedAt": rfc3339(applied.applied_at), "gone": gone, "unpermitted": lacking}
    lines = [
        f"{applied.digest} is active since {value['appliedAt']}",
        TAKEN_UP,
        *(f"{name} is not in it: its runs go on, and no other starts" for name in gone),
        *map(NOT_PERMITTED.format_map, lacking),
    ]
    emit(machine, value, lambda console: console.print(plain("\n".join(lines))))


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


async def _replace(storage: Storage, package: Package, *, force: bool) -> tuple[Applied, list[str]]:
    """Apply a package; return also the workflows that the one before had and this one has not."""
    stored = await storage.workflows.list()
    before = {each.workflow_id for other in stored if other.active for each in other.definitions}
    return await _apply(storage, package, force=force), sorted(before - package.workflows.keys())


def _lacking(package: Package, settings: Settings) -> list[dict[str, str]]:
    """Return the calls of a package that the settings do not permit."""
    known = connections(settings.called())
    return [
        {"workflow": name, "connection": call.connection, "method": call.method, "path": call.path}
        for name, workflow in _sorted(package)
        for call in unpermitted(workflow, known)
    ]


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
        raise _refused(f"{folder} is no package:", "package", error.findings) from None


def _refused(sentence: str, kind: str, found: Sequence[Finding]) -> RefusedError:
    detail = "\n  ".join([sentence, *map(str, found)])
    return RefusedError(detail, {"error": kind, "findings": [asdict(each) for each in found]})


async def _verdicts(loaded: Sequence[Scenario], package: Package) -> list[Verdict]:
    return [judge(each, await carry_out(each, package)) for each in loaded]


def _unreached(verdicts: Sequence[Verdict], package: Package) -> dict[str, list[str]]:
    """Return, by workflow, the steps that no scenario comes to."""
    reached = {(each.scenario.workflow.id, step) for each in verdicts for step in each.got.get("path", ())}
    steps = {name: [step for step in ordered(each) if (name, step) not in reached] for name, each in _sorted(package)}
    return {name: left for name, left in steps.items() if left}


def _report(verdicts: Sequence[Verdict], unreached: Mapping[str, Sequence[str]]) -> list[str]:
    failed = sum(not each.passed for each in verdicts)
    count = f"{len(verdicts)} scenario{'s' if len(verdicts) > 1 else ''}"
    return [
        *(line for each in verdicts for line in each.lines()),
        *(f"no scenario of {name} comes to {', '.join(steps)}" for name, steps in unreached.items()),
        f"{failed} of {count} failed" if failed else f"{count} passed",
    ]


def _sorted(package: Package) -> list[tuple[str, Workflow]]:
    return sorted(package.workflows.items())


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
