"""The plan file of a node: the command of each step that has one; what is wrong is told by its name and place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tools import settingsfile
from tools.commands.terminal import RefusedError
from tools.settingsfile import SettingsError

MOST_SECONDS: Final = 86_400
_MEMBERS: Final = ("name", "run", "timeoutSeconds")

_Fault: TypeAlias = tuple[tuple[str | int, ...], str]


@dataclass(frozen=True, slots=True)
class Command:
    """What a step runs, without a shell, and for how long it may."""

    run: tuple[str, ...]
    timeout_seconds: int


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
        text = settingsfile.read(raw, name)
    except SettingsError as error:
        raise _refusal(error.findings) from None
    faults = list(_faults(text.value))
    if faults:
        raise _refusal([f"{text.place(path)}: {settingsfile.dotted(path)} {message}" for path, message in faults])
    steps = text.value.get("steps") or []
    return PlanFile(
        {step["name"]: Command(tuple(step["run"]), step["timeoutSeconds"]) for step in steps},
        {step["name"]: text.place(("steps", index, "name")) for index, step in enumerate(steps)},
    )


def _refusal(findings: list[str]) -> RefusedError:
    return RefusedError("\n  ".join(["the plan is refused:", *findings]), {"error": "plan", "findings": findings})


def _faults(value: dict[str, Any]) -> Iterator[_Fault]:
    yield from (((name,), "is not known; there is steps") for name in value if name != "steps")
    steps = value.get("steps")
    if not isinstance(steps, list | None):
        yield ("steps",), "must be a list"
        return
    names: list[Any] = []
    for index, step in enumerate(steps or []):
        path = ("steps", index)
        if not isinstance(step, dict):
            yield path, "must be a mapping"
            continue
        yield from _faults_of_step(path, step)
        if step.get("name") in names:
            yield (*path, "name"), "must name each step once"
        names.append(step.get("name"))


def _faults_of_step(path: tuple[str | int, ...], step: dict[str, Any]) -> Iterator[_Fault]:
    yield from (((*path, name), f"is not known; there are {', '.join(_MEMBERS)}") for name in step.keys() - _MEMBERS)
    yield from (((*path, name), "is missing") for name in _MEMBERS if name not in step)
    if "name" in step and not _is_text(step["name"]):
        yield (*path, "name"), "must be text"
    if "run" in step and not _is_command(step["run"]):
        yield (*path, "run"), "must be a list of texts, the program first"
    if "timeoutSeconds" in step and not _is_seconds(step["timeoutSeconds"]):
        yield (*path, "timeoutSeconds"), f"must be a whole number from 1 to {MOST_SECONDS}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_command(value: Any) -> bool:
    # The system has no way to hand a NUL on to a program.
    texts = isinstance(value, list) and all(isinstance(each, str) and "\0" not in each for each in value)
    return texts and _is_text(value[0] if value else None)


def _is_seconds(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST_SECONDS
