"""The `gatehouse` command: its tree of commands, each imported when it is called, and what becomes of their faults."""

from __future__ import annotations

import gc
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from tools.commands.terminal import CommandError, RefusedError, report

# Each stands for the `app` of the module of that name in tools/commands.
COMMANDS: Final = {
    "init": "Make what a first start needs in a state folder.",
    "serve": "Serve the listeners of a state folder.",
    "generate": "Make generated/ from the documents in spec/.",
    "clients": "Make clients of the documents in spec/.",
    "check": "Find what is wrong with documents, generated code, migrations, traffic and servers.",
    "diff": "Tell what a change of the documents breaks, and for whom.",
    "workflows": "Check, test, explain, apply and list packages of workflows.",
    "sources": "Make the keys that sign events.",
    "event": "Send signed events.",
    "runs": "List, show, follow, cancel, retry and reconcile runs.",
    "holds": "Show, set and release the holds of admission and execution.",
    "join": "Join a founder as a node.",
    "joins": "Make join tokens, and list, approve, reject and follow joins.",
    "install": "Configure a machine, start its install and follow it.",
    "demo": "Run what the demo workflow calls.",
    "audit": "Verify the audit chain.",
    "bench": "Measure this server beside its peers.",
}


def _imported(name: str) -> ModuleType:
    # Of what is made here next to nothing is ever freed, and to look for it again and again takes a third of the time.
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()


class _Deferred(TyperCommand):
    """Stands for a command in the list; the module that has the command is imported when it is called."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Go on with the command itself."""
        command = get_command(_imported(f"tools.commands.{self.name}").app)
        return command.make_context(info_name, args, parent=parent, **extra)


class _Root(TyperGroup):
    """The outermost group, where the faults of every command are told."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Refuse arguments that are not UTF-8: neither a request nor an answer on the terminal could hold them."""
        for place, argument in enumerate(args, 1):
            try:
                argument.encode()
            except UnicodeEncodeError:
                raise typer.BadParameter(f"argument {place} is not UTF-8") from None
        return super().make_context(info_name, args, parent=parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a fault that it foresaw ends in one line and its exit code."""
        try:
            return super().invoke(ctx)
        except CommandError as error:
            fault = error
        except OSError as error:
            if error.filename is None:
                raise
            fault = RefusedError(f"{error.filename}: {error.strerror}")
        report(fault, ctx)
        raise typer.Exit(fault.exit_code)


app = typer.Typer(cls=_Root, no_args_is_help=True, add_completion=False)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(version("gatehouse"))
        raise typer.Exit


@app.callback()
def gatehouse(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
) -> None:
    """Gatehouse: a spec-first server for signed events, joining nodes and installs that are followed live.

    Exit codes: 0 done, 1 refused, 2 usage, 3 unreachable.
    """


def main() -> None:
    """Run the command that the arguments name; ends the process with its exit code."""
    root = get_group(app)
    for name, text in COMMANDS.items():
        root.add_command(_Deferred(name, help=text))
    root.main(prog_name="gatehouse")


if __name__ == "__main__":
    main()
