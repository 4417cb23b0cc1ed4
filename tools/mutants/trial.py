"""One mutant on trial, in a process of its own: the first check or test that fails has noticed it.

The process is a fork of one that has imported the libraries, and none of this project's code that is generated or
stands on it: that is imported here, on top of what was generated from the changed document.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from tools import lint
from tools.generator import DocumentError
from tools.generator.output import render
from tools.mutants.document import changed
from tools.mutants.mutations import SEEDS, Mutant
from tools.mutants.score import UNJUDGED, Verdict
from tools.mutants.suites import SUITES, Choice

# Libraries are imported already, which pytest would warn of.
_OPTIONS: Final = (
    *("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:anyio", "-p", "no:unraisableexception"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning", "--timeout", "60"),
)
_LINKED: Final = ("handlers", "storage", "tools", "tests", "pyproject.toml")


def prepare() -> None:
    """Import what every trial needs; call it once, before the first fork."""
    warnings.simplefilter("ignore")
    for name in ("alembic.command", "connexion", "httpx", "mypy.api", "openapi_core", "psycopg", "uvicorn"):
        importlib.import_module(name)
    for name in ("storage.database", "storage.migrations", "cel", "cryptography.x509", "prometheus_client", "uvloop"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def judge(mutant: Mutant, document: Mapping[str, Any], root: Path) -> Verdict:
    """Try a mutant of `document`, from the folder `root` of the repository.

    What is imported for it stays, so that this is for a fork that ends with it.
    """
    return _judge(changed(document, mutant.change), mutant.api, Choice(mutant.operation, mutant.hints), root)


def judge_unchanged(operation: str, documents: Mapping[str, Mapping[str, Any]], root: Path) -> Verdict:
    """Try the document of an operation as it is: nothing may notice anything."""
    api = SEEDS[operation]
    return _judge(documents[api], api, Choice(operation), root)


def _judge(document: Mapping[str, Any], api: str, choice: Choice, root: Path) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="gatehouse-mutant-") as scratch:
        tree = Path(scratch)
        spec = tree / f"spec/{api}.yaml"
        spec.parent.mkdir()
        spec.write_text(json.dumps(document, ensure_ascii=False, indent=1), "utf-8")
        found = lint.lint(spec)
        if found:
            return Verdict("lint", f"{found[0].message} [{found[0].rule}]")
        try:
            typed = _generate(tree, root, api)
        except DocumentError as error:
            return Verdict("generator", str(error))
        verdict = _tests(choice, tree, root)
        return _types(tree, root) if typed and not verdict.by else verdict


def _generate(tree: Path, root: Path, api: str) -> bool:
    """Write generated/ below `tree`; True where Python code differs from that of `root`."""
    differs = False
    for name, text in render(tree / "spec").items():
        path, there = tree / "generated" / name, root / "generated" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if there.is_file() and (name == "__init__.py" or there.read_text("utf-8") == text):
            path.symlink_to(there)
        else:
            path.write_text(text, "utf-8")
            differs |= name.endswith(".py")
    for package in root.glob("generated/*/__init__.py"):
        if package.parent.name != api:
            (tree / "generated" / package.parent.name).symlink_to(package.parent)
    return differs


def _tests(choice: Choice, tree: Path, root: Path) -> Verdict:
    os.chdir(root)
    os.environ.pop("CI", None)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(tree), str(root)])
    sys.path[:0] = [str(tree), str(root)]
    sys.dont_write_bytecode = True
    _take_generated(tree)
    try:
        _import_generated(tree)
        opener = importlib.import_module("tests.support.opener")
        opener.import_beforehand()
    except Exception as error:  # noqa: BLE001 - whatever the code that was generated does has noticed it.
        return Verdict("import", f"{type(error).__name__}: {error}")
    with _forks(opener.serve):
        code = pytest.main([*_OPTIONS, f"--basetemp={tree / 'tmp'}", *SUITES[choice.operation]], plugins=[choice])
    if code == pytest.ExitCode.OK:
        return Verdict("")
    if choice.hindrance or not choice.failed:
        return Verdict(UNJUDGED, f"{choice.failed or f'pytest ended with {int(code)}'}: {choice.hindrance}")
    return Verdict("tests", choice.failed)


def _take_generated(tree: Path) -> None:
    package = importlib.import_module("generated")
    if list(package.__path__) != [str(tree / "generated")]:
        raise RuntimeError(f"generated/ was imported from {package.__path__} already")


def _import_generated(tree: Path) -> None:
    for file in sorted((tree / "generated").glob("*/*.py")):
        importlib.import_module(f"generated.{file.parent.name}.{file.stem}".removesuffix(".__init__"))


@contextlib.contextmanager
def _forks(serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Let the tests' servers be forks of a fork of this process, which has imported what they need."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _serve_forks(serve, theirs)
    theirs.close()
    importlib.import_module("tests.support.forks").use(ours)
    try:
        yield
    finally:
        ours.close()
        os.waitpid(pid, 0)


def _serve_forks(serve: Callable[[socket.socket], None], door: socket.socket) -> NoReturn:
    code = 0
    try:
        serve(door)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 1
    finally:
        os._exit(code)


def _types(tree: Path, root: Path) -> Verdict:
    """Let mypy look at the handlers, with a copy of its cache: what it learns here is not true of `root`."""
    for name in _LINKED:
        (tree / name).symlink_to(root / name)
    cache = tree / ".mypy_cache"
    if (root / cache.name).is_dir():
        shutil.copytree(root / cache.name, cache)
    os.chdir(tree)
    os.environ["MYPYPATH"] = str(tree)
    out, err, code = importlib.import_module("mypy.api").run(["--no-error-summary", f"--cache-dir={cache}", "handlers"])
    if code not in {0, 1}:
        raise RuntimeError(f"mypy ended with {code}: {err}{out}")
    return Verdict("mypy", out.splitlines()[0]) if code else Verdict("")
