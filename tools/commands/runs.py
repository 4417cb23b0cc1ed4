"""`gatehouse runs`: lists, shows and cancels runs over HTTP, as the operator."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Column, Table

from tools.commands.client import UrlOption, operator
from tools.commands.terminal import ConfigOption, Machine, StateOption, emit, group, plain
from tools.state import DEFAULT_FOLDER

app = group()

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")]


@app.command("list")
def list_runs(
    *,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many at most.")] = 20,
    run_state: Annotated[str | None, typer.Option(metavar="STATE", help="Only runs in this state.")] = None,
    before: Annotated[str | None, typer.Option(metavar="RUN", help="Only runs that are older than this one.")] = None,
    machine: Machine = False,
) -> None:
    """List runs, the newest first."""
    given = {"limit": limit, "state": run_state, "before": before}
    query = {name: value for name, value in given.items() if value is not None}
    answer = operator(state, config, url).ask("GET", "/v1/runs", params=query)
    emit(machine, answer, lambda console: _table(console, answer["runs"]))


@app.command()
def show(
    run: RunArgument,
    *,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Show one run with its steps."""
    answer = operator(state, config, url).ask("GET", f"{_path(run)}/inspect")
    emit(machine, answer, lambda console: _inspection(console, answer))


@app.command()
def cancel(
    run: RunArgument,
    *,
    reason: Annotated[str, typer.Option(help="Why, for the audit chain; 1 to 256 characters.")],
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Ask a run to end; one that has ended stays as it is."""
    answer = operator(state, config, url).ask("POST", f"{_path(run)}/cancel", json={"reason": reason})
    emit(machine, answer, lambda console: _run(console, answer))


def _path(run: str) -> str:
    return f"/v1/runs/{quote(run, safe='')}"


def _table(console: Console, runs: list[dict[str, Any]]) -> None:
    # An id or a time that is cut short is of no use to anyone.
    names = ("run", "workflow", "version", "state", "step", "admitted")
    table = Table(*(Column(name, overflow="fold") for name in names), box=None)
    for run in runs:
        names = ("runId", "workflowId", "workflowVersion", "state", "step", "admittedAt")
        table.add_row(*(_text(run.get(name)) for name in names))
    console.print(table if runs else "no runs")


def _run(console: Console, run: dict[str, Any]) -> None:
    for name, value in run.items():
        console.print(f"{name:<22} {_text(value)}")


def _inspection(console: Console, answer: dict[str, Any]) -> None:
    _run(console, answer["run"])
    for step in answer["steps"]:
        console.print(f"step {_text(step['step'])} ({_text(step['type'])}): {_text(step['state'])}")
        for attempt in step["attempts"]:
            console.print(f"  attempt {attempt['number']}: {_text(attempt['result'])} {_text(attempt['httpStatus'])}")


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str():
            return plain(value)
        case _:
            return plain(json.dumps(value, ensure_ascii=False))
