"""Makes the generated folder whole, or compares it with what it should be."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tools.generator.contracts import ApiContract
from tools.generator.documents import DocumentError
from tools.generator.reading.api import read_api
from tools.generator.writing.layout import MARKER, MEND, docstring, header
from tools.generator.writing.models import write_models
from tools.generator.writing.operations import write_operation, write_operations
from tools.generator.writing.problems import write_problems
from tools.generator.writing.security import write_security
from tools.generator.writing.service import write_service

Kind: TypeAlias = Literal["changed", "missing", "orphaned", "unmarked"]

_RUNTIME = Path(__file__).with_name("writing") / "runtime.py"


class TargetError(Exception):
    """The target holds files that no generator wrote; replacing it would lose them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A file of the target that is not as the documents have it; `diff` leads from what is there to what should be."""

    kind: Kind
    path: str
    diff: str


def read_apis(spec_dir: Path) -> list[ApiContract]:
    """Read every document of `spec_dir`, by name; raises DocumentError where there is none or one cannot be read."""
    paths = sorted(spec_dir.glob("*.yaml"))
    if not paths:
        raise DocumentError(spec_dir.name, "", "holds no document")
    apis: dict[str, ApiContract] = {}
    for path in paths:
        api = read_api(path)
        if api.name in apis:
            raise DocumentError(api.document.source, "", f"gives the package {api.name} a second time")
        apis[api.name] = api
    return list(apis.values())


def generate(spec_dir: Path, target: Path) -> list[Finding]:
    """Make `target` what the documents of `spec_dir` say, and return what was not so before.

    The old folder stays whole until the new one is complete beside it. Raises DocumentError, and TargetError where
    `target` holds something else than generated code.
    """
    expected = render(spec_dir)
    findings = _compare(expected, target)
    if findings:
        _refuse_foreign(target)
        _replace(expected, target)
    return findings


def check(spec_dir: Path, target: Path) -> list[Finding]:
    """Return what of `target` is changed, missing, orphaned or unmarked; changes nothing. Raises DocumentError."""
    return _compare(render(spec_dir), target)


def report(findings: list[Finding]) -> str:
    """Return the findings for people: each with its diff, and at the end the command that mends them all."""
    parts = [f"{finding.path}: {finding.kind}\n{finding.diff}" for finding in findings]
    return "".join(parts) + (f"Mend it with: {MEND}\n" if findings else "")


def render(spec_dir: Path) -> dict[str, str]:
    """Return the text of each generated file by its path in the target."""
    files = {
        "__init__.py": header(f"{spec_dir.name}/") + docstring("Made from the documents: one package for each."),
        "runtime.py": header(None) + _RUNTIME.read_text("utf-8"),
    }
    for api in read_apis(spec_dir):
        files |= {f"{api.name}/{path}": text for path, text in _render_api(api)}
    return files


def _render_api(api: ApiContract) -> Iterator[tuple[str, str]]:
    yield "__init__.py", header(api.document.source) + docstring(f"{api.title}: {api.summary}")
    yield "contract.json", api.document.json()
    yield "models.py", write_models(api)
    yield "problems.py", write_problems(api)
    yield "security.py", write_security(api)
    yield "service.py", write_service(api)
    yield "operations/__init__.py", write_operations(api)
    for operation in api.operations:
        yield f"operations/{operation.name}.py", write_operation(api, operation)


def _compare(expected: dict[str, str], target: Path) -> list[Finding]:
    there = {path.relative_to(target).as_posix(): path for path in _files(target)}
    findings = []
    for name in sorted(expected.keys() | there.keys()):
        old = there[name].read_bytes().decode("utf-8", "replace") if name in there else None
        kind = _judge(name, old, expected.get(name))
        if kind is not None:
            path = f"{target.name}/{name}"
            findings.append(Finding(kind=kind, path=path, diff=_diff(path, old, expected.get(name))))
    return findings


def _files(target: Path) -> Iterator[Path]:
    for path in target.rglob("*"):
        if not path.is_dir() and "__pycache__" not in path.parts:
            yield path


def _judge(name: str, old: str | None, new: str | None) -> Kind | None:
    if old is None:
        return "missing"
    if old == new:
        return None
    if name.endswith(".py") and not old.startswith(MARKER):
        return "unmarked"
    return "orphaned" if new is None else "changed"


def _diff(path: str, old: str | None, new: str | None) -> str:
    before, after = ((text or "").splitlines(keepends=True) for text in (old, new))
    lines = difflib.unified_diff(before, after, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _refuse_foreign(target: Path) -> None:
    package = target / "__init__.py"
    marked = package.is_file() and package.read_bytes().startswith(MARKER.encode())
    if not marked and any(_files(target)):
        raise TargetError(f"{target} holds files, and no __init__.py that the generator wrote: nothing was replaced")


def _replace(files: dict[str, str], target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        fresh, old = Path(scratch) / "new", Path(scratch) / "old"
        for name, text in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
        if target.exists():
            target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
