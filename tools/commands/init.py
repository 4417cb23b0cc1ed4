"""`gatehouse init`: makes a state folder, or what a first start left unfinished of it, with its database."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tools import state as states
from tools.commands import database
from tools.commands.folder import private_files, settings_of, told
from tools.commands.terminal import ConfigOption, Machine, StateOption, emit, group
from tools.commands.workflows import apply_first
from tools.settings import Settings
from tools.state import DEFAULT_FOLDER, StateFolder

app = group()


@app.command()
def init(
    *,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    migrate: Annotated[bool, typer.Option("--migrate", help="Migrate the database, also PostgreSQL.")] = False,
    machine: Machine = False,
) -> None:
    """Make what a first start needs in a state folder; what is there stays as it is."""
    folder = StateFolder(state)
    settings = settings_of(folder, config)
    with told(), private_files():
        states.make_folder(folder)
        made = prepare(folder, settings, config, migrate=migrate)
    emit(
        machine,
        {"state": str(folder.path.absolute()), "made": [str(file) for file in made]},
        lambda console: _show(console, folder, made),
    )


def prepare(folder: StateFolder, settings: Settings, config: Path | None, *, migrate: bool) -> list[Path]:
    """Make what is missing in a state folder, bring its database level, and give it a first package; return files made.

    The settings file comes last, and only where no other is meant. Raises StateError, RefusedError, UnreachableError.
    """
    with states.hold(folder.lock_file("init")):
        made = states.make_files(folder, _demo())
        database.migrate(settings, also_postgresql=migrate)
        apply_first(folder, settings)
        return made + (states.make_settings(folder) if config is None else [])


def _demo() -> dict[str, bytes]:
    package = files("handlers.coordinator.workflows") / "demo"
    scenarios = {f"scenarios/{name}": text for name, text in _texts(package / "scenarios").items()}
    return _texts(package) | scenarios


def _texts(folder: Traversable) -> dict[str, bytes]:
    found = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name: file.read_bytes() for file in found if file.name.endswith(".yaml")}


def _show(console: Console, folder: StateFolder, made: list[Path]) -> None:
    for file in made:
        console.print(f"made {file}")
    console.print(f"{folder.path} is ready" if made else f"{folder.path} was ready")
