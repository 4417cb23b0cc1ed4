"""What every command shares: its common options, how it speaks (to people, or JSON with --json), and how it fails."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

REFUSED: Final = 1
UNREACHABLE: Final = 3
# What asks a command to stop that goes on for long.
STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MACHINE: Final = "tools.commands.machine"
# Where nobody looks at a terminal, tables have room for their ids.
_WIDTH: Final = 160


class CommandError(Exception):
    """A command ends without having done what was asked, for a reason that the person can act on.

    `body` is what --json prints of it: an API's problem, or `{"error": kind, "detail": text}`.
    """

    exit_code: int = REFUSED
    kind: str = "refused"

    def __init__(self, detail: str, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.body = dict(body) if body is not None else {"error": self.kind, "detail": detail}


class RefusedError(CommandError):
    """What was asked is not allowed or not possible as things are."""


class UnreachableError(CommandError):
    """The server or the database does not answer."""

    exit_code = UNREACHABLE
    kind = "unreachable"


class StoppedError(CommandError):
    """A signal ended the command before its end."""

    kind = "stopped"


def _remember(context: typer.Context, value: bool) -> bool:
    context.meta[_MACHINE] = value
    return value


Machine = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.", callback=_remember)]
StateOption = Annotated[Path, typer.Option("--state", metavar="DIR", help="The state folder.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The settings, where not DIR/gatehouse.yaml.")
]


def group() -> typer.Typer:
    """Make the `app` of a module of commands."""
    return typer.Typer(no_args_is_help=True, add_completion=False)


def emit(machine: bool, value: Any, show: Callable[[Console], None]) -> None:
    """Print a result on standard output: `value` as one line of JSON, or whatever `show` does for a person."""
    if machine:
        typer.echo(machine_text(value))
    else:
        # What goes to a file or a program is as wide as it needs to be, whatever COLUMNS says.
        width = max(shutil.get_terminal_size().columns, 100) if sys.stdout.isatty() else _WIDTH
        show(Console(width=width, soft_wrap=True, highlight=False, markup=False, emoji=False))


def findings(value: Sequence[Mapping[str, Any]], lines: Sequence[str], good: str, machine: bool) -> None:
    """Print what a check found, which ends the command with 1, or the line `good` where that is nothing."""
    emit(machine, {"findings": value}, lambda console: console.print(plain("\n".join(lines or [good]))))
    if value:
        raise typer.Exit(REFUSED)


def plain(text: str) -> str:
    """Text that came from elsewhere, without what a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\n" else "\ufffd" for character in text)


def machine_text(value: Any) -> str:
    """One line of JSON in which a terminal finds nothing to obey: some obey U+0080 to U+009F, too.

    What cannot be printed, or not be encoded (half a surrogate pair), is an escape.
    """
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def complain(error: CommandError) -> None:
    """Tell a person on standard error why something was not done."""
    typer.echo(f"gatehouse: {plain(error.detail)}", err=True)


def report(error: CommandError, context: typer.Context) -> None:
    """Tell why a command failed: a person on standard error, and a machine on standard output where that was asked."""
    complain(error)
    if context.meta.get(_MACHINE):
        typer.echo(machine_text(error.body))
