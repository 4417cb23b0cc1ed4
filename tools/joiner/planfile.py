"""The plan file of a node: the command of each step that has one; what is wrong is told by its name and place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from handlers.steps import plan
from handlers.steps.plan import Command, PlanError
from tools.commands.terminal import RefusedError


@dataclass(frozen=True, slots=True)
class PlanFile:
    """The commands by the names of their steps, and where each name stands in the file."""

    commands: Mapping[str, Command]
    places: Mapping[str, str]

    def fit(self, plan: Sequence[str]) -> None:
        """RefusedError where the file has a step that the founder's plan lacks."""
        strays = {name: place for name, place in self.places.items() if name not in plan}
        if strays:
            steps = ", ".join(plan)
            raise _refusal([f"{at}: {name} is no step of this join; they are {steps}" for name, at in strays.items()])


EMPTY: Final = PlanFile({}, {})


def load(file: Path) -> PlanFile:
    """Read `steps: [{name, run: [PROGRAM, ARGUMENT…], timeoutSeconds}]`; RefusedError tells all that is wrong."""
    return parse(file.read_bytes(), str(file))


def parse(raw: bytes, name: str) -> PlanFile:
    """Do what `load` does with the bytes of the file `name`."""
    try:
        steps = plan.parse(raw, name)
    except PlanError as error:
        raise _refusal(error.findings) from None
    return PlanFile({step.name: step.command for step in steps}, {step.name: step.place for step in steps})


def _refusal(findings: list[str]) -> RefusedError:
    return RefusedError("\n  ".join(["the plan is refused:", *findings]), {"error": "plan", "findings": findings})
