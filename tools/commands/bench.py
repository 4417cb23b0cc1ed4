"""`gatehouse bench`: measures this server beside its peers."""

from __future__ import annotations

from typing import Annotated

import typer

from tools.bench.command import run
from tools.commands.terminal import Machine, group

app = group()


@app.command()
def bench(
    *,
    rounds: Annotated[int, typer.Option(min=1, help="How often each server is measured.")] = 5,
    seconds: Annotated[int, typer.Option(min=1, help="How long a round lasts.")] = 5,
    machine: Machine = False,
) -> None:
    """Measure this server and its peers side by side, and print the ratios; 1 where a budget is not held."""
    raise typer.Exit(run(rounds=rounds, seconds=seconds, as_json=machine))
