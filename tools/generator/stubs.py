"""Writes the first lines of a handler and of its test, beside what is there already and never over it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.generator.contracts import ApiContract, OperationContract, ProblemContract
from tools.generator.output import read_apis
from tools.generator.writing.layout import docstring

# The scheme whose credential tests.support.examples sends by itself.
_OPERATOR: Final = "operatorToken"
_ROOMS: Final = ("generated", "handlers", "storage", "tests", "tools")


class StubError(Exception):
    """There is no stub for this operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """Where a handler and its test are, which of the two was written, and the two lines that service.py needs."""

    handler: Path
    test: Path
    written: tuple[Path, ...]
    service: Path
    service_import: str
    service_line: str


def stub(spec_dir: Path, root: Path, operation_id: str) -> Stub:
    """Write a handler for `operation_id` into the rooms under `root`, and a test that fails until it is written.

    A handler that is there already stays as it is, and so does its test. Raises DocumentError, and StubError where
    no document has the operation or it has no problem of the server's own to raise.
    """
    api, operation = _find(spec_dir, operation_id)
    handler = root / "handlers" / api.name / f"{operation.tag}.py"
    test = root / "tests" / "handlers" / api.name / f"test_{operation.tag}.py"
    added = _write(handler, _handler(api, operation), f"The tag {operation.tag} of {api.title}.")
    proof_added = added and _write(test, _test(operation), None)
    return Stub(
        handler=handler,
        test=test,
        written=tuple(path for path, is_new in ((handler, added), (test, proof_added)) if is_new),
        service=handler.with_name("service.py"),
        service_import=f"from handlers.{api.name}.{operation.tag} import {operation.name}",
        service_line=f"{operation.name}=partial({operation.name}, app),",
    )


def _find(spec_dir: Path, operation_id: str) -> tuple[ApiContract, OperationContract]:
    known = {operation.id: (api, operation) for api in read_apis(spec_dir) for operation in api.operations}
    if operation_id not in known:
        raise StubError(f"no document has an operation {operation_id}; there are {', '.join(sorted(known))}")
    return known[operation_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """A function as text, and the imports that it needs, a `from` line each."""

    name: str
    text: str
    imports: tuple[str, ...]


def _handler(api: ApiContract, operation: OperationContract) -> _Function:
    name, module = operation.name, f"{operation.name}_op"
    problem = _own_fault(operation)
    return _Function(
        name=name,
        text=f"async def {name}(_app: App, _request: {module}.Request) -> {module}.Response:\n"
        + docstring(f"{operation.summary}.", "    ")
        + f'    raise {module}.{problem.class_name}("This operation is not implemented yet.")\n',
        imports=(
            f"from generated.{api.name}.operations import {name} as {module}",
            f"from handlers.{api.name}.app import App",
        ),
    )


def _own_fault(operation: OperationContract) -> ProblemContract:
    faults = [problem for problem in operation.problems if problem.status >= 500 and _needs_nothing(problem)]
    if not faults:
        raise StubError(f"{operation.id} documents no 5xx that a stub could raise")
    return min(faults, key=lambda problem: problem.status)


def _needs_nothing(problem: ProblemContract) -> bool:
    return all(field.default is not None for field in (*problem.given, *problem.members))


def _test(operation: OperationContract) -> _Function:
    name = f"test_{operation.name}_answers_its_example_with_a_success"
    statuses = sorted({answer.status for answer in operation.answers})
    is_success = f"== {statuses[0]}" if len(statuses) == 1 else f"in {{{', '.join(map(str, statuses))}}}"
    return _Function(
        name=name,
        text=f"def {name}(server: Gatehouse) -> None:\n"
        + "".join(f"    # {sentence}\n" for sentence in _arrangements(operation))
        + f'    answer = send_example(server, "{operation.id}")\n'
        + f'    assert answer.status {is_success}, f"{operation.id} gives no success: {{answer.body.decode()}}"\n',
        imports=(
            "from tests.support.examples import send_example",
            "from tests.support.gatehouse import Gatehouse",
        ),
    )


def _arrangements(operation: OperationContract) -> Iterator[str]:
    """Say what the test has to arrange before the example can lead to a success."""
    for parameter in operation.parameters:
        if parameter.location == "path":
            name = parameter.field.wire
            yield f'The "{name}" of the example has to exist: make one, and send it as {{"{name}": ...}}.'
    names = [scheme.name for scheme in operation.schemes]
    if names and _OPERATOR not in names:
        yield f"The example has no credential for {' or '.join(names)}: send one with it."


def _write(path: Path, function: _Function, doc: str | None) -> bool:
    """Add the function to `path`, which is made where it is missing; tells whether it did."""
    text = path.read_text("utf-8") if path.exists() else _empty(doc)
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if any(there.name == function.name for there in functions):
        return False
    for line in function.imports:
        text = _with_import(text, line)
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True)
        (path.parent / "__init__.py").touch()
    path.write_text(f"{text.rstrip()}\n\n\n{function.text}", "utf-8")
    return True


def _empty(doc: str | None) -> str:
    return ("" if doc is None else docstring(doc) + "\n") + "from __future__ import annotations\n"


def _with_import(text: str, line: str) -> str:
    """Put an import where isort would: by kind of module, then by name."""
    lines, tree = text.splitlines(), ast.parse(text).body
    (new,) = _imports(ast.parse(line).body)
    there = _imports(tree)
    if any(new.names <= known.names and new.module == known.module for known in there):
        return text
    peers = [known for known in there if known.rank == new.rank]
    if peers:
        smaller = [known.end for known in peers if known.key < new.key]
        place, added = (smaller[-1] if smaller else peers[0].start), [line]
    else:
        lower = [known.end for known in there if known.rank < new.rank]
        place = lower[-1] if lower else _docstring_end(tree)
        added = ["", line] if place else [line, ""]
    return "\n".join([*lines[:place], *added, *lines[place:]]) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Import:
    """One import: it stands behind line `start` and ends with line `end`."""

    module: str
    names: frozenset[tuple[str, str | None]]
    key: tuple[bool, str, str]
    start: int
    end: int

    @property
    def rank(self) -> int:
        """The group that it belongs to: the future, the standard library, libraries, rooms."""
        root = self.module.partition(".")[0]
        if root in _ROOMS:
            return 3
        return 0 if root == "__future__" else 1 if root in sys.stdlib_module_names else 2


def _imports(tree: list[ast.stmt]) -> list[_Import]:
    imports = []
    for node in tree:
        if isinstance(node, ast.Import | ast.ImportFrom):
            is_from = isinstance(node, ast.ImportFrom)
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
            names = frozenset((alias.name, alias.asname) for alias in node.names)
            key = (is_from, module, node.names[0].name)
            end = node.end_lineno or node.lineno
            imports.append(_Import(module=module, names=names, key=key, start=node.lineno - 1, end=end))
    return imports


def _docstring_end(tree: list[ast.stmt]) -> int:
    first = tree[0] if tree else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return (first.end_lineno or 0) if first is not None and is_text else 0
