"""`gatehouse bench`: measures this server beside its peers."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from tools.bench import apart
from tools.bench.apart import APART
from tools.bench.command import PARTS, redraw, run
from tools.commands.terminal import Machine, group

app = group()


class What(Enum):
    """What there is to measure."""

    ADMIT = "admit"
    EXECUTION = "execution"
    JOIN = "join"
    INSTALL = "install"
    ALL = "all"
    GROWTH = "growth"
    OVERLOAD = "overload"
    PROFILE = "profile"


@app.command()
def bench(
    what: Annotated[
        What,
        typer.Argument(
            help="Admission of events, what execution costs it, reports of joins, streams of installs, or all of these;"
            " or, with nothing beside it, what growth changes, what overload does, or a profile of where time goes."
        ),
    ] = What.ALL,
    *,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each server is measured; at most 3 times with installs.")
    ] = 5,
    seconds: Annotated[int, typer.Option(min=1, help="How long a round lasts; at most 2 s with installs.")] = 4,
    runs: Annotated[int, typer.Option(min=1, help="How often all of it is done, to see whether the floors hold.")] = 1,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", dir_okay=False, exists=True, help="Only make the plot of this JSON document, beside it."
        ),
    ] = None,
    machine: Machine = False,
) -> None:
    """Measure this server and its peers side by side, and print the ratios; 1 where a budget is not held.

    Growth, overload and profile go by times and numbers of their own.
    """
    if plot is not None:
        raise typer.Exit(redraw(plot))
    for part in APART:
        if what is What(part):
            raise typer.Exit(apart.run(part, as_json=machine))
    parts = [part for part in PARTS if what in {What.ALL, What(part)}]
    raise typer.Exit(run(parts, rounds=rounds, seconds=seconds, runs=runs, as_json=machine))
