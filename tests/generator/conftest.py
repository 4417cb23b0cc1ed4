from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import pytest

ROOT: Final = Path(__file__).parents[2]

Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]
Types: TypeAlias = Callable[..., list[str]]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of this repository, to be changed."""
    for room in ("spec", "generated", "handlers", "storage", "tools", "tests"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.fixture
def run(repository: Path) -> Run:
    """Runs a command in the copy, which then finds its own modules and not those of this repository."""

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(repository)}
        return subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True, check=False)

    return command


@pytest.fixture
def types(run: Run, pytestconfig: pytest.Config) -> Types:
    """Gives what mypy says of some files of the copy; its cache is kept, since it is mostly of libraries."""
    assert pytestconfig.cache is not None
    options = ["--follow-imports", "silent", "--no-error-summary"]
    cache = ["--cache-dir", str(pytestconfig.cache.mkdir("mypy"))]

    def lines(*files: str) -> list[str]:
        return run(sys.executable, "-m", "mypy", *options, *cache, *files).stdout.splitlines()

    return lines
