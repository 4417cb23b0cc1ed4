"""A package: a folder of workflows, checked as a whole, and the snapshot by which storage keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import rfc8785

from handlers.coordinator.workflows.digest import digest_of_text
from handlers.coordinator.workflows.files import Finding, finding_at, findings_of, folder_files, read_file, told
from handlers.coordinator.workflows.workflow import RefusedWorkflowError, Workflow, compile_workflow
from handlers.gateway.yaml_reader import Document, Fault

MAX_FILES: Final = 256
MAX_CHARACTERS: Final = 4_194_304

_FORMAT: Final = 1


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
                findings += (Finding(definition["id"], 1, 1, told(fault)) for fault in error.faults)
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
        files = folder_files(folder)
    except OSError as error:
        return {}, [Finding(str(folder), 1, 1, f"cannot be read: {error.strerror}")]
    if not 1 <= len(files) <= MAX_FILES:
        return {}, [Finding(str(folder), 1, 1, f"a package has 1 to {MAX_FILES} files that end in .yaml or .yml")]
    findings: list[Finding] = []
    documents = {file: document for file in files if (document := read_file(file, findings)) is not None}
    if sum(len(document.text) for document in documents.values()) > MAX_CHARACTERS:
        findings.append(Finding(str(folder), 1, 1, f"a package has at most {MAX_CHARACTERS:,} characters"))
    for file, document in documents.items():
        findings += findings_of(file, document, _faults(document.value))
    definitions = _by_id(documents, findings)
    return definitions, sorted(set(findings))


def _by_id(documents: Mapping[Path, Document], findings: list[Finding]) -> dict[str, Any]:
    owners: dict[str, Path] = {}
    for file, document in documents.items():
        name = document.value.get("id") if isinstance(document.value, dict) else None
        if isinstance(name, str) and owners.setdefault(name, file) is not file:
            fault = Fault(("id",), f"the workflow {name} stands in {owners[name].name} already")
            findings.append(finding_at(file, document.place(fault), told(fault)))
    return {name: documents[file].value for name, file in owners.items()}


def _faults(definition: Any) -> list[Fault]:
    try:
        compile_workflow(definition)
    except RefusedWorkflowError as error:
        return error.faults
    return []
