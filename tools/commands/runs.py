"""`gatehouse runs`: lists, shows, follows, cancels, retries and reconciles runs over HTTP, as the operator."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Column, Table

from tools.commands.client import Client, UrlOption, operator
from tools.commands.runstory import ENDED, RunStory, stuck
from tools.commands.terminal import REFUSED, ConfigOption, Machine, StateOption, emit, group, plain
from tools.state import DEFAULT_FOLDER

app = group()

# As storage has them; to import it would take this command longer than the rest of it.
STATES: Final = "admitted, running, waiting, uncertain, completed, failed, cancelled"
# Between two looks at a run that is followed.
PAUSE_SECONDS: Final = 1.0
# A connection may take so long to give a receipt, and a little more goes by around it.
RECEIPT_SECONDS: Final = 330.0

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")]
ReasonOption = Annotated[str, typer.Option(help="Why, for the audit chain; 1 to 256 characters.")]


@app.command("list")
def list_runs(
    *,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many at most.")] = 20,
    run_state: Annotated[str | None, typer.Option(metavar="STATE", help=f"Only runs in this state: {STATES}.")] = None,
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
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until the run ends; exit code 0 is completed, 1 any other end.")
    ] = False,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Show one run with its steps and their attempts; with --follow each change is one line, also with --json."""
    client = operator(state, config, url)
    answer = _inspect(client, run)
    if follow:
        _follow(client, run, answer, RunStory(machine))
    else:
        emit(machine, answer, lambda console: _inspection(console, answer))


@app.command()
def cancel(
    run: RunArgument,
    *,
    reason: ReasonOption,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Ask a run to end, and show what its calls have come to; one that has ended stays as it is."""
    client = operator(state, config, url)
    client.ask("POST", f"{_path(run)}/cancel", json={"reason": reason})
    answer = _inspect(client, run)
    calls = _calls(answer)
    emit(machine, answer["run"] | {"calls": calls}, lambda console: _cancelled(console, answer["run"], calls))


@app.command()
def retry(
    run: RunArgument,
    *,
    reason: ReasonOption,
    accept_repeat: Annotated[
        bool, typer.Option("--accept-repeat", help="Also where the command may then take effect twice.")
    ] = False,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Take up a run at once that is uncertain or waits at a call: the same command is sent again."""
    body = {"reason": reason} | ({"acceptRepeat": True} if accept_repeat else {})
    answer = operator(state, config, url).ask("POST", f"{_path(run)}/retry-same", json=body)
    emit(machine, answer, lambda console: _run(console, answer))


@app.command()
def reconcile(
    run: RunArgument,
    *,
    reason: ReasonOption,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Ask the receiver by its receipt what came of an uncertain call, and go on with that."""
    client = operator(state, config, url)
    answer = client.ask("POST", f"{_path(run)}/reconcile", json={"reason": reason}, timeout=RECEIPT_SECONDS)
    emit(machine, answer, lambda console: _run(console, answer))


def _inspect(client: Client, run: str) -> dict[str, Any]:
    answer: dict[str, Any] = client.ask("GET", f"{_path(run)}/inspect")
    return answer


def _follow(client: Client, run: str, answer: dict[str, Any], story: RunStory) -> None:
    """Tell a run's changes until it ends; a server that is away for a while is waited for."""
    story.inspection(answer)
    while answer["run"]["state"] not in ENDED:
        time.sleep(PAUSE_SECONDS)
        answer = story.patiently(lambda: _inspect(client, run)) or answer
        story.inspection(answer)
    if answer["run"]["state"] != "completed":
        raise typer.Exit(REFUSED)


def _calls(answer: dict[str, Any]) -> list[dict[str, str]]:
    """What the calls of a run that was cancelled have come to, where anything was sent."""
    calls = []
    for step in answer["steps"]:
        results = {attempt["result"] for attempt in step["attempts"]}
        if not results.isdisjoint({"completed", "receipt-found"}):
            calls.append({"step": step["step"], "effect": "accepted"})
        elif None in results:
            calls.append({"step": step["step"], "effect": "under way"})
        elif results and step["step"] == answer["run"]["step"] and answer["run"]["uncertain"]:
            calls.append({"step": step["step"], "effect": "perhaps accepted"})
    return calls


def _cancelled(console: Console, run: dict[str, Any], calls: list[dict[str, str]]) -> None:
    _run(console, run)
    for call in calls:
        console.print(f"{'call':<22} {plain(call['step'])}: {call['effect']}")
    if not calls:
        console.print(f"{'call':<22} none was accepted")


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
    console.print(f"{'recovery':<22} {_text(answer['recovery'])}")
    if told := stuck(answer):
        console.print(told)
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
