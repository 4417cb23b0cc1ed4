"""Reads the two sides of a comparison: a file, a folder of documents, or what git has of either at a revision."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

import jsonschema_rs
from openapi_spec_validator.schemas import schema_v31

from tools.lint import document
from tools.lint.grammar import Node, Tree

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_VERSION: Final = "3.1."


class SourceError(Exception):
    """What was named is no document of OpenAPI 3.1, or nothing at all; the message is one line for a person."""


def load(source: str, spec: Path) -> Mapping[str, Any]:
    """Return the documents of `source` by the names of their files.

    A path that exists is read as it is. Anything else is git's: a revision, of which the folder `spec` is meant, or
    `REVISION:PATH`. Raises SourceError where there is none, or one cannot be read.
    """
    path = Path(source)
    texts = _of_path(path) if path.exists() else _of_git(source, spec)
    found = {name: _parsed(name, text) for name, text in sorted(texts.items())}
    if not any(_is_document(root) for root in found.values()):
        raise SourceError(f"{source} has no document of OpenAPI 3.1")
    return found


def described(documents: Mapping[str, Any]) -> list[str]:
    """Return the names of those that are whole documents, and not pieces that others refer to."""
    return [name for name, root in documents.items() if _is_document(root)]


def _of_path(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {file.name: file.read_bytes() for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file()}
    return {path.name: path.read_bytes()}


def _of_git(source: str, spec: Path) -> dict[str, bytes]:
    thing = source if ":" in source else f"{source}^{{commit}}"
    found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", thing)
    if found is None:
        raise SourceError(f"{source} is neither a file or folder nor a revision of git")
    if ":" not in source:
        # A path with a leading dot is taken from the present folder, as `spec` is.
        place = PurePosixPath(os.path.relpath(spec))
        found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{found.decode().strip()}:./{place}")
        if found is None:
            raise SourceError(f"{source} has no {spec}")
    name = found.decode().strip()
    if _git("cat-file", "-t", name) == b"blob\n":
        return {PurePosixPath(source.partition(":")[2]).name: _git("cat-file", "blob", name) or b""}
    listed = (
        (_git("ls-tree", "--full-tree", "--name-only", "-z", name) or b"")
        .decode("utf-8", "surrogateescape")
        .split("\0")
    )
    files = (file for file in listed if file.endswith(_SUFFIXES))
    return {file: _git("cat-file", "blob", f"{name}:{file}") or b"" for file in files}


def _git(*arguments: str) -> bytes | None:
    """Return what git prints, or None where it fails."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False)  # noqa: S603, S607 - git as the person has it
    except FileNotFoundError:
        raise SourceError("git is not installed, so that no revision can be read") from None
    return done.stdout if done.returncode == 0 else None


@lru_cache(maxsize=64)
def _parsed(name: str, text: bytes) -> Any:
    try:
        found = document.parse(Path(name), text)
    except document.UnreadableError as error:
        line, column = error.position
        raise SourceError(f"{name}:{line}:{column}: {error}") from None
    except RecursionError:
        raise SourceError(f"{name} is nested too deeply") from None
    version = found.root.get("openapi")
    if version is not None and not str(version).startswith(_VERSION):
        raise SourceError(f"{name} is a document of OpenAPI {version}, and 3.1 alone is compared")
    if version is not None:
        _check(found)
    return found.root


def _check(found: document.Document) -> None:
    """Raise SourceError where the shape is not that of OpenAPI 3.1, on which every comparison relies."""
    faults = [tuple(map(str, each.instance_path)) for each in _shape().iter_errors(found.root)]
    schemas = _outermost(Tree(found))
    faults += [each.pointer for each in schemas if not jsonschema_rs.meta.is_valid(each.value)]
    if faults:
        line, column = found.position(faults[0])
        raise SourceError(f"{found.path}:{line}:{column}: this is not as OpenAPI 3.1 has it")


@lru_cache(maxsize=1)
def _shape() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(dict(schema_v31))


def _outermost(tree: Tree) -> Iterator[Node]:
    """Yield the schemas that are not inside another one."""
    inside: set[document.Pointer] = set()
    for node in tree:
        if node.kind == "schema":
            if not any(node.pointer[:length] in inside for length in range(len(node.pointer))):
                yield node
            inside.add(node.pointer)


def _is_document(root: Any) -> bool:
    return isinstance(root, dict) and "openapi" in root
