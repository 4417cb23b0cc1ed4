"""The YAML files of a folder, and what is wrong in them as an editor follows it: by file, line and column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from handlers.gateway.yaml_reader import MAX_BYTES, Document, Fault, Place, UnreadableError, read_document

SUFFIXES: Final = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One fault of a package; line and column count from 1."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


def folder_files(folder: Path) -> list[Path]:
    """Return the YAML files of a folder itself, by name; raises OSError where it cannot be read."""
    return sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())


def read_file(file: Path, findings: list[Finding]) -> Document | None:
    """Read one YAML file; where it cannot be read, None, and `findings` gets the reason."""
    try:
        with file.open("rb") as stream:
            return read_document(stream.read(MAX_BYTES + 1))
    except UnreadableError as error:
        findings.append(finding_at(file, error.place, str(error)))
    except OSError as error:
        findings.append(finding_at(file, Place(1, 1), f"cannot be read: {error.strerror}"))
    return None


def findings_of(file: Path, document: Document, faults: Sequence[Fault]) -> Iterator[Finding]:
    """Give the problems of a file and the faults of its value; of one that was spelled wrong, its spelling alone."""
    for problem in document.problems:
        yield finding_at(file, problem.place, problem.message)
    misspelled = {problem.place for problem in document.problems}
    for fault in faults:
        place = document.place(fault)
        if place not in misspelled:
            yield finding_at(file, place, told(fault))


def finding_at(file: Path, place: Place, message: str) -> Finding:
    """Return a finding at a place of a file."""
    return Finding(str(file), place.line, place.column, message)


def told(fault: Fault) -> str:
    """Return a fault's message, after the value that has it."""
    where = ".".join(map(str, fault.path))
    return f"{where}: {fault.message}" if where else fault.message
