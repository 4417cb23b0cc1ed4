"""`gatehouse joins`: makes join tokens, decides about joins and follows them, over HTTP, as the operator."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Column, Table

from storage.join.states import JoinState, Role
from tools.commands.client import Client, UrlOption, operator, refusal
from tools.commands.folder import address, opened
from tools.commands.terminal import (
    REFUSED,
    ConfigOption,
    Machine,
    StateOption,
    emit,
    group,
    plain,
)
from tools.joiner.course import TOKEN_VARIABLE
from tools.joiner.progress import Progress
from tools.state import DEFAULT_FOLDER

app = group()

ENDED: Final = frozenset({"joined", "rejected", "failed", "expired"})
REGISTRATIONS: Final = "/v1/join/registrations"
TOKENS: Final = "/v1/join/tokens"
# Between two looks at a join that is followed.
PAUSE_SECONDS: Final = 0.5

JoinArgument = Annotated[str, typer.Argument(metavar="JOIN", help="The id of the join.")]


@app.callback()
def joins() -> None:
    """Make join tokens, and list, approve, reject and follow joins."""


@app.command()
def token(
    *,
    name: Annotated[str | None, typer.Option(help="What the token is for, as the audit chain tells it.")] = None,
    ttl: Annotated[int, typer.Option(min=60, max=604_800, metavar="SECONDS", help="For how long it is good.")] = 3600,
    revoke: Annotated[str | None, typer.Option(metavar="TOKEN_ID", help="Take this one back instead.")] = None,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Make a token with which one node may register, and show the command for that node."""
    client = operator(state, config, url)
    if revoke is not None:
        _revoke(client, revoke, machine)
        return
    body = {"ttlSeconds": ttl} | ({} if name is None else {"name": name})
    answer = client.ask("POST", TOKENS, json=body)
    founder = address(*opened(state, config), "join")
    emit(machine, answer | {"founder": founder}, lambda console: _token(console, answer, founder))


@app.command("list")
def list_joins(
    *,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 100,
    join_state: Annotated[
        JoinState | None, typer.Option(metavar="STATE", help="Only joins in this state, such as pending.")
    ] = None,
    machine: Machine = False,
) -> None:
    """List joins, the oldest first."""
    query = {"limit": limit} | ({} if join_state is None else {"state": join_state})
    answer = operator(state, config, url).ask("GET", REGISTRATIONS, params=query)
    emit(machine, answer, lambda console: _table(console, answer["registrations"]))


@app.command()
def approve(
    join: JoinArgument,
    *,
    role: Annotated[Role | None, typer.Option(help="Only if no other live join has this role.")] = None,
    address: Annotated[str | None, typer.Option(help="Only if no other live join has this address.")] = None,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Let a node in: it gets its turn after those that were approved before it."""
    given = {name: value for name, value in {"role": role, "address": address}.items() if value is not None}
    options = {"json": given} if given else {}
    answer = operator(state, config, url).ask("POST", f"{_path(join)}/approve", **options)
    emit(machine, answer, lambda console: _registration(console, answer))


@app.command()
def reject(
    join: JoinArgument,
    *,
    reason: Annotated[str, typer.Option(help="Why, for the node and the audit chain; 1 to 256 characters.")],
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Turn a node away; one that is joining is stopped and taken back out."""
    answer = operator(state, config, url).ask("POST", f"{_path(join)}/reject", json={"reason": reason})
    emit(machine, answer, lambda console: _registration(console, answer))


@app.command()
def log(
    join: JoinArgument,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until the join ends; exit code 0 is joined, 1 any other end.")
    ] = False,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Show the steps and the log lines of a join; with --json each of them is one line."""
    story = _Story(operator(state, config, url), join, Progress(machine))
    registration = story.tell()
    while follow and registration["state"] not in ENDED:
        time.sleep(PAUSE_SECONDS)
        registration = story.go_on(registration)
    if follow and registration["state"] != "joined":
        raise typer.Exit(REFUSED)


class _Story:
    """What has been told of one join."""

    def __init__(self, client: Client, join: str, progress: Progress) -> None:
        self._client = client
        self._path = _path(join)
        self._progress = progress
        self._after = 0

    def go_on(self, registration: dict[str, Any]) -> dict[str, Any]:
        """Tell what is new; a server that is away for a while is waited for."""
        return self._progress.patiently(self.tell) or registration

    def tell(self) -> dict[str, Any]:
        """Tell what is new: steps and lines in the order in which they came, the end last; return the registration."""
        # Asked before the log, which then has all that was reported before a step or the join ended.
        registration: dict[str, Any] = self._client.ask("GET", self._path)
        ended = registration["state"] in ENDED
        if not ended:
            self._progress.state(registration)
        self._progress.rafts(registration)
        self._lines(registration["steps"])
        for step in registration["steps"]:
            self._step(step)
        if ended:
            self._progress.state(registration)
        return registration

    def _lines(self, steps: list[dict[str, Any]]) -> None:
        while lines := self._client.ask("GET", f"{self._path}/log", params={"after": self._after})["lines"]:
            for line in lines:
                self._line(line, steps)

    def _line(self, line: Mapping[str, Any], steps: list[dict[str, Any]]) -> None:
        missed = line["seq"] - self._after - 1
        if missed:
            self._progress.dropped(missed)
        self._after = line["seq"]
        names = [step["step"] for step in steps]
        if line["step"] in names:
            self._until(steps[: names.index(line["step"]) + 1])
        self._progress.line(line["step"], line["message"], {"seq": line["seq"], "at": line["at"]})

    def _until(self, steps: list[dict[str, Any]]) -> None:
        """Tell the steps that came before a line of the last of them, which was running then."""
        for step in steps[:-1]:
            self._step(step)
        if not self._progress.knows_step(steps[-1]["step"]):
            self._step(steps[-1] | {"status": "running", "message": None})

    def _step(self, step: Mapping[str, Any]) -> None:
        if step["status"] != "waiting":
            self._progress.step(step["step"], step["status"], step["message"])


def _path(join: str) -> str:
    return f"{REGISTRATIONS}/{quote(join, safe='')}"


def _revoke(client: Client, token_id: str, machine: bool) -> None:
    answer = client.send("DELETE", f"{TOKENS}/{quote(token_id, safe='')}")
    if not answer.is_success:
        raise refusal(answer)
    emit(machine, {"tokenId": token_id}, lambda console: console.print(f"revoked {plain(token_id)}"))


def _token(console: Console, answer: Mapping[str, Any], founder: str) -> None:
    console.print(f"token {answer['tokenId']}, good for one node until {answer['expiresAt']}; on that node:")
    # In the environment nobody else on that machine can read it, unlike on a command line.
    command = f"{TOKEN_VARIABLE}={answer['token']} gatehouse join --founder {shlex.quote(founder)}"
    console.print(f"{command} --name NAME --role compute --address ADDRESS")


def _table(console: Console, registrations: list[dict[str, Any]]) -> None:
    names = ("joinId", "name", "role", "address", "state", "position", "registeredAt")
    # An id or a time that is cut short is of no use to anyone.
    table = Table(*(Column(name, overflow="fold") for name in ("join", *names[1:-1], "registered")), box=None)
    for registration in registrations:
        table.add_row(*(_text(registration[name]) for name in names))
    console.print(table if registrations else "no joins")


def _registration(console: Console, registration: Mapping[str, Any]) -> None:
    for name in ("joinId", "name", "role", "address", "state", "position", "failure"):
        console.print(f"{name:<22} {_text(registration[name])}")


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case str():
            return plain(value)
        case _:
            return plain(json.dumps(value, ensure_ascii=False))
