"""`gatehouse bench`: measures this server beside its peers."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from tools.bench.command import PARTS, run
from tools.commands.terminal import Machine, group

app = group()


class What(Enum):
    """What there is to measure."""

    ADMIT = "admit"
    EXECUTION = "execution"
    JOIN = "join"
    INSTALL = "install"
    ALL = "all"


@app.command()
def bench(
    what: Annotated[
        What,
        typer.Argument(
            help="Admission of events, what execution costs it, reports of joins, streams of installs, or all."
        ),
    ] = What.ALL,
    *,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each server is measured; at most 3 times with installs.")
    ] = 5,
    seconds: Annotated[int, typer.Option(min=1, help="How long a round lasts; at most 2 s with installs.")] = 4,
    machine: Machine = False,
) -> None:
    """Measure this server and its peers side by side, and print the ratios; 1 where a budget is not held."""
    parts = [part for part in PARTS if what in {What.ALL, What(part)}]
    raise typer.Exit(run(parts, rounds=rounds, seconds=seconds, as_json=machine))
