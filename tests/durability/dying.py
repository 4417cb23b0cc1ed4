"""Executors that kill themselves at one write of their journal: before it is made, or when it is durable."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

When: TypeAlias = Literal["before", "after"]

# Python runs it at the start of each process; what it imports then is there already when an executor needs it. Each
# run takes the first plan that is left, and counts down in it: 0 is the write at which its executor dies.
_DYING: Final = """
import functools, os, pathlib, signal, sys

if "tools.executor" in sys.orig_argv:
    from storage.execution.journal import Journal

    FOLDER = pathlib.Path(__file__).parent

    def plan_of(run):
        own = FOLDER / run
        if not own.exists():
            left = sorted(FOLDER.glob("plan-*"))
            left[0].rename(own) if left else own.write_text("")
        return own

    def die_where_planned(plan, when):
        left, _, planned = plan.read_text().partition(" ")
        if left == "0" and planned == when:
            plan.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(write):
        @functools.wraps(write)
        async def wrapped(self, claim, *arguments, **options):
            plan = plan_of(claim.run_id)
            die_where_planned(plan, "before")
            found = await write(self, claim, *arguments, **options)
            die_where_planned(plan, "after")
            left, _, planned = plan.read_text().partition(" ")
            if left:
                plan.write_text(f"{int(left) - 1} {planned}")
            return found
        return wrapped

    for name in ("take_up", "dispatch", "settle"):
        setattr(Journal, name, dying(getattr(Journal, name)))
"""


class Death(NamedTuple):
    """At which write of a run's, counted from 0, its executor dies."""

    write: int
    when: When


class Deaths:
    """What runs that begin from now on have before them, in any order; those beyond `deaths` have nothing."""

    def __init__(self, folder: Path, deaths: Iterable[Death]) -> None:
        (folder / "sitecustomize.py").write_text(_DYING)
        for number, death in enumerate(deaths):
            (folder / f"plan-{number:03}").write_text(f"{death.write} {death.when}")
        self.environment = {"PYTHONPATH": str(folder)}
        self._folder = folder

    def died(self) -> bool:
        """Whether all that was planned has come about."""
        return all(not plan.read_text() for plan in self._folder.iterdir() if plan.suffix == "")
