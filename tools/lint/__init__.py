"""The lint of spec/: holds documents to what the generator, the gateway and client generators rely on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.lint.document import Document, Fault, UnreadableError, read, written
from tools.lint.grammar import Tree
from tools.lint.rules import STAGES

__all__ = ["Finding", "lint", "lint_all"]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One breach of one rule; line and column count from 1, the pointer is a JSON pointer (RFC 6901)."""

    file: Path
    line: int
    column: int
    pointer: str
    rule: str
    message: str


def lint_all(spec_dir: Path) -> list[Finding]:
    """Lint each YAML document of `spec_dir`; FileNotFoundError where there is none."""
    documents = sorted(spec_dir.glob("*.yaml"))
    if not documents:
        raise FileNotFoundError(f"{spec_dir} has no document")
    return [finding for path in documents for finding in lint(path)]


def lint(path: Path) -> list[Finding]:
    """Return what breaks a rule in the document at `path`, in the order of its lines; OSError where it cannot be read.

    The rules come in stages: where one stage finds a fault, the later ones have nothing to stand on and are left out.
    """
    try:
        document = read(path)
    except UnreadableError as error:
        return [Finding(path, *error.position, "", "yaml", str(error))]
    tree = Tree(document)
    for stage in STAGES:
        faults = {(name, fault) for name, rule in stage.items() for fault in rule(tree)}
        if faults:
            return sorted(_finding(document, name, fault) for name, fault in faults)
    return []


def _finding(document: Document, rule: str, fault: Fault) -> Finding:
    position = document.position(fault.pointer)
    return Finding(document.path, *position, written(fault.pointer), rule, fault.message)
