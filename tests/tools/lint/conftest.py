"""A small valid document, and what the lint says once parts of it are edited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tools.lint import Finding, lint

Edit: TypeAlias = tuple[str, str]
Edited: TypeAlias = Callable[..., list[Finding]]


@pytest.fixture
def library() -> str:
    return Path(__file__).with_name("library.yaml").read_text("utf-8")


@pytest.fixture
def lint_edited(library: str, tmp_path: Path) -> Edited:
    def edited(*edits: Edit) -> list[Finding]:
        text = library
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new, 1)
        path = tmp_path / "library.yaml"
        path.write_text(text, "utf-8")
        return lint(path)

    return edited
