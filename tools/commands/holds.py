"""`gatehouse holds`: shows, sets and releases the holds of admission and execution over HTTP, as the operator."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tools.commands.client import UrlOption, operator
from tools.commands.terminal import ConfigOption, Machine, StateOption, emit, group
from tools.state import DEFAULT_FOLDER

app = group()

ReasonOption = Annotated[str, typer.Option(help="Why, for the audit chain; 1 to 256 characters.")]


@app.command()
def show(
    *,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Show both holds."""
    _show(operator(state, config, url).ask("GET", "/v1/doctor")["holds"], machine)


@app.command("set")
def set_hold(
    *,
    reason: ReasonOption,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Hold execution and, with it, admission."""
    _show(operator(state, config, url).ask("POST", "/v1/restore-hold", json={"reason": reason}), machine)


@app.command()
def release_restore(
    *,
    reason: ReasonOption,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Release the hold of execution; admission stays held."""
    _show(operator(state, config, url).ask("POST", "/v1/release-restore-hold", json={"reason": reason}), machine)


@app.command()
def release_admission(
    *,
    reference: Annotated[str, typer.Option(help="The record of the recovery that allows this.")],
    history_complete: Annotated[bool, typer.Option("--history-complete", help="All admissions were restored.")] = False,
    fenced: Annotated[bool, typer.Option("--fenced", help="The deployment before can admit nothing more.")] = False,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Release the hold of admission, once both facts that make it safe are declared."""
    body = {
        "recoveryReference": reference,
        "admissionHistoryComplete": history_complete,
        "priorDeploymentFenced": fenced,
    }
    _show(operator(state, config, url).ask("POST", "/v1/release-admission-hold", json=body), machine)


def _show(holds: dict[str, Any], machine: bool) -> None:
    words = {True: "held", False: "open"}
    text = f"admission {words[holds['admissionHeld']]}, execution {words[holds['executionHeld']]}"
    emit(machine, holds, lambda console: console.print(text))
