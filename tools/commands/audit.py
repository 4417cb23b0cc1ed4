"""`gatehouse audit`: verifies the audit chain and its file."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console
from typer import Exit

from storage.verification import Verification
from storage.verification import verify as verified
from tools.commands import database
from tools.commands.folder import opened
from tools.commands.terminal import REFUSED, ConfigOption, Machine, StateOption, emit, group
from tools.state import DEFAULT_FOLDER

app = group()


@app.callback()
def audit() -> None:
    """Verify the audit chain."""


@app.command()
def verify(*, state: StateOption = DEFAULT_FOLDER, config: ConfigOption = None, machine: Machine = False) -> None:
    """Check every chain of the table, and that the file holds this server's; 1 where anything disagrees."""
    folder, settings = opened(state, config)
    with database.told():
        found = verified(
            settings.database_url,
            node=settings.node,
            audit_file=folder.audit_file,
            busy_milliseconds=settings.limits.busy_milliseconds,
        )
    emit(machine, asdict(found), lambda console: _show(console, found))
    if found.faults:
        raise Exit(REFUSED)


def _show(console: Console, found: Verification) -> None:
    for fault in found.faults:
        console.print(f"{fault.node} row {fault.seq}: {fault.what}")
    console.print(f"{_count(found.rows, 'row')}, {_count(found.lines, 'line')}, {_count(len(found.faults), 'fault')}")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
