"""`gatehouse sources`: makes the keys that sign events, and their entries in the settings file."""

from __future__ import annotations

import re
import secrets
import stat
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from tools import settings as settings_module
from tools import settingsfile
from tools.commands.folder import opened, told
from tools.commands.terminal import ConfigOption, Machine, RefusedError, StateOption, emit, group
from tools.settings import Settings
from tools.state import DEFAULT_FOLDER, KEY_BYTES, SECRET, StateFolder, hold, replace

app = group()


@app.callback()
def sources() -> None:
    """Make the keys that sign events."""


@app.command()
def add(
    workflow: str,
    trigger: str,
    *,
    key_file: Annotated[
        Path | None, typer.Option(help="A key of 32 bytes or more; made where it is not there. By default a new one.")
    ] = None,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    machine: Machine = False,
) -> None:
    """Let a key sign the events of a workflow's trigger: its first, or the second while the first is being replaced."""
    folder, settings = opened(state, config)
    file = config or folder.settings_file
    with told(), hold(folder.lock_file("init")):
        key = (key_file or _free(folder, workflow, trigger)).absolute()
        _refuse_third(settings, workflow, trigger, key)
        text = _extended(file, workflow, trigger, key)
        made = _made(key)
        replace(file.resolve(), text.encode(), stat.S_IMODE(file.stat().st_mode))
    value = {"workflow": workflow, "trigger": trigger, "keyFile": str(key), "made": made}
    emit(machine, value, lambda console: console.print(f"{'made' if made else 'took'} {key}; {file} names it"))


def _refuse_third(settings: Settings, workflow: str, trigger: str, key: Path) -> None:
    files = next(
        (each.key_files for each in settings.events if (each.workflow, each.trigger) == (workflow, trigger)), ()
    )
    if key in files:
        raise RefusedError(f"{key} may sign the events of {workflow}/{trigger} already")
    if len(files) == 2:
        raise RefusedError(f"{workflow}/{trigger} has two key files; take the one that is no longer used out first")


def _free(folder: StateFolder, workflow: str, trigger: str) -> Path:
    """Return the name of a key file that is not there yet."""
    stem = re.sub(r"[^A-Za-z0-9-]", "-", f"{workflow}--{trigger}")
    names = (f"{stem}.key" if number == 1 else f"{stem}-{number}.key" for number in count(1))
    return next(file for file in map(folder.sources.joinpath, names) if not file.exists())


def _extended(file: Path, workflow: str, trigger: str, key: Path) -> str:
    """Return the settings file's text with the key in it, proved to be settings that a server takes."""
    root = file.absolute().parent
    named = str(key.relative_to(root) if key.is_relative_to(root) else key)
    text = settingsfile.with_key_file(file.read_bytes().decode(), str(file), workflow, trigger, named)
    settings_module.parse(text.encode(), file)
    return text


def _made(key: Path) -> bool:
    if not key.exists():
        key.parent.mkdir(exist_ok=True)
        replace(key, secrets.token_bytes(KEY_BYTES), SECRET)
        return True
    if len(key.read_bytes()) < KEY_BYTES:
        raise RefusedError(f"{key} has fewer than {KEY_BYTES} bytes")
    return False
