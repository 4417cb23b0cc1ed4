"""Executors that kill themselves at one write of their journal: before it is made, or when it is durable."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

When: TypeAlias = Literal["before", "after"]

# Python runs it at the start of each process; what it imports then is there already when an executor needs it. Each
# run takes the first plan that is left, and counts down in it: 0 is the write at which its executor dies. Who dies
# again does so one write later: the next executor takes the step up first.
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
        match plan.read_text().split():
            case ["0", planned, times] if planned == when:
                plan.write_text(f"1 {when} {int(times) - 1}" if times != "1" else "")
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
    """At which write of a run's, counted from 0, its executor dies, and how many do."""

    write: int
    when: When
    times: int = 1


class Deaths:
    """What runs have before them, in the order in which they are first taken up; those beyond `deaths` have nothing."""

    def __init__(self, folder: Path, deaths: Iterable[Death]) -> None:
        (folder / "sitecustomize.py").write_text(_DYING)
        for number, death in enumerate(deaths):
            (folder / f"plan-{number:03}").write_text(f"{death.write} {death.when} {death.times}")
        self.environment = {"PYTHONPATH": str(folder)}
        self._folder = folder

    def died(self) -> bool:
        """Whether all that was planned has come about."""
        return all(not plan.read_text() for plan in self._folder.iterdir() if plan.is_file() and plan.suffix == "")
