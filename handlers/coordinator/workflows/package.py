"""A package: a folder of workflows, checked as a whole, and the snapshot by which storage keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import rfc8785

from handlers.coordinator.workflows.digest import digest_of_text
from handlers.coordinator.workflows.workflow import RefusedWorkflowError, Workflow, compile_workflow
from handlers.gateway.yaml_reader import (
    MAX_BYTES,
    Document,
    Fault,
    Place,
    UnreadableError,
    read_document,
)

MAX_FILES: Final = 256
MAX_CHARACTERS: Final = 4_194_304
SUFFIXES: Final = frozenset({".yaml", ".yml"})

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One fault of a package; line and column count from 1."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class RefusedPackageError(Exception):
    """A package that breaks rules, with all that was found."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Package:
    """Compiled workflows by id. `snapshot` is their canonical JSON, `digest` the `sha256:` digest of that."""

    digest: str
    snapshot: str
    workflows: Mapping[str, Workflow]

    @classmethod
    def from_snapshot(cls, snapshot: str) -> Package:
        """Compile what a snapshot holds; raises RefusedPackageError where this version does not take it."""
        held = orjson.loads(snapshot)
        if held["format"] != _FORMAT:
            raise RefusedPackageError([Finding("snapshot", 1, 1, f"format {held['format']} is not known")])
        workflows: dict[str, Workflow] = {}
        findings: list[Finding] = []
        for definition in held["workflows"]:
            try:
                workflows[definition["id"]] = compile_workflow(definition)
            except RefusedWorkflowError as error:
                findings += (Finding(definition["id"], 1, 1, _told(fault)) for fault in error.faults)
        if findings:
            raise RefusedPackageError(findings)
        return cls(digest_of_text(snapshot.encode()), snapshot, workflows)


def check(folder: Path) -> list[Finding]:
    """Return every fault of the package in a folder, by file, line and column; none where it can be loaded."""
    return _read(folder)[1]


def load(folder: Path) -> Package:
    """Compile the package in a folder; raises RefusedPackageError with all that check finds."""
    definitions, findings = _read(folder)
    if findings:
        raise RefusedPackageError(findings)
    ordered = [definitions[name] for name in sorted(definitions)]
    return Package.from_snapshot(rfc8785.dumps({"format": _FORMAT, "workflows": ordered}).decode())


def _read(folder: Path) -> tuple[dict[str, Any], list[Finding]]:
    """Return the definitions by id, and what is wrong with them."""
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())
    except OSError as error:
        return {}, [Finding(str(folder), 1, 1, f"cannot be read: {error.strerror}")]
    if not 1 <= len(files) <= MAX_FILES:
        return {}, [Finding(str(folder), 1, 1, f"a package has 1 to {MAX_FILES} files that end in .yaml or .yml")]
    findings: list[Finding] = []
    documents = {file: document for file in files if (document := _document(file, findings)) is not None}
    if sum(len(document.text) for document in documents.values()) > MAX_CHARACTERS:
        findings.append(Finding(str(folder), 1, 1, f"a package has at most {MAX_CHARACTERS:,} characters"))
    for file, document in documents.items():
        findings += _findings(file, document)
    definitions = _by_id(documents, findings)
    return definitions, sorted(set(findings))


def _by_id(documents: Mapping[Path, Document], findings: list[Finding]) -> dict[str, Any]:
    owners: dict[str, Path] = {}
    for file, document in documents.items():
        name = document.value.get("id") if isinstance(document.value, dict) else None
        if isinstance(name, str) and owners.setdefault(name, file) is not file:
            fault = Fault(("id",), f"the workflow {name} stands in {owners[name].name} already")
            findings.append(_finding(file, document.place(fault), _told(fault)))
    return {name: documents[file].value for name, file in owners.items()}


def _document(file: Path, findings: list[Finding]) -> Document | None:
    try:
        with file.open("rb") as stream:
            return read_document(stream.read(MAX_BYTES + 1))
    except UnreadableError as error:
        findings.append(_finding(file, error.place, str(error)))
    except OSError as error:
        findings.append(_finding(file, Place(1, 1), f"cannot be read: {error.strerror}"))
    return None


def _findings(file: Path, document: Document) -> Iterator[Finding]:
    """Give the faults of one file; of a value that was spelled wrong, its spelling alone."""
    for problem in document.problems:
        yield _finding(file, problem.place, problem.message)
    misspelled = {problem.place for problem in document.problems}
    try:
        compile_workflow(document.value)
    except RefusedWorkflowError as error:
        for fault in error.faults:
            place = document.place(fault)
            if place not in misspelled:
                yield _finding(file, place, _told(fault))


def _finding(file: Path, place: Place, message: str) -> Finding:
    return Finding(str(file), place.line, place.column, message)


def _told(fault: Fault) -> str:
    where = ".".join(map(str, fault.path))
    return f"{where}: {fault.message}" if where else fault.message
