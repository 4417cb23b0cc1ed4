"""A plan of steps, each of which runs a command; what is wrong with its text is told by name and place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from handlers.gateway.yaml_reader import Document, Fault, Path, Place, UnreadableError, read_document

MOST_SECONDS: Final = 86_400
_MEMBERS: Final = ("name", "run", "timeoutSeconds")

_Fault: TypeAlias = tuple[Path, str]


class PlanError(Exception):
    """A plan was refused; each finding is one line: the place, the name, what should stand there."""

    def __init__(self, findings: list[str]) -> None:
        super().__init__("; ".join(findings))
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Command:
    """What a step runs, without a shell, and for how long it may."""

    run: tuple[str, ...]
    timeout_seconds: int


@dataclass(frozen=True, slots=True)
class Step:
    """A step, and where its name stands in the plan."""

    name: str
    command: Command
    place: str


def parse(raw: bytes, file: str) -> tuple[Step, ...]:
    """Read `steps: [{name, run: [PROGRAM, ARGUMENT…], timeoutSeconds}]`, of which there may be none.

    `file` is what messages call it. Raises PlanError, which tells all that is wrong.
    """
    document = _read(raw, file)
    faults = list(_faults(document.value))
    if faults:
        raise PlanError([f"{_place(document, file, path)}: {_dotted(path)} {message}" for path, message in faults])
    return tuple(
        Step(
            step["name"],
            Command(tuple(step["run"]), step["timeoutSeconds"]),
            _place(document, file, ("steps", index, "name")),
        )
        for index, step in enumerate(document.value.get("steps") or [])
    )


def _read(raw: bytes, file: str) -> Document:
    try:
        document = read_document(b"{}" if _is_blank(raw) else raw)
    except UnreadableError as error:
        raise PlanError([f"{_at(file, error.place)}: {error}"]) from None
    if document.problems:
        raise PlanError([f"{_at(file, problem.place)}: {problem.message}" for problem in document.problems])
    if not isinstance(document.value, dict):
        raise PlanError([f"{file}:1:1: must be a mapping"])
    return document


def _is_blank(raw: bytes) -> bool:
    return all(line.lstrip()[:1] in (b"", b"#") for line in raw.splitlines())


def _place(document: Document, file: str, path: Path) -> str:
    return _at(file, document.place(Fault(path, "", key=True)))


def _at(file: str, place: Place) -> str:
    return f"{file}:{place.line}:{place.column}"


def _dotted(path: Path) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


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


def _faults_of_step(path: Path, step: dict[str, Any]) -> Iterator[_Fault]:
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
