"""What the generators of TypeScript have in common."""

from __future__ import annotations

import re
from pathlib import Path

from tools.clients.kit import Kit, Ran


def complaints(ran: Ran, expected: re.Pattern[str]) -> list[str]:
    """Return what a generator printed beside what it prints when all is well."""
    lines = [line.strip() for line in ran.text.splitlines()]
    found = [line for line in lines if line and not expected.fullmatch(line)]
    return found or ([f"it ended with {ran.code}"] if ran.code else [])


def compile_folder(kit: Kit, folder: Path) -> list[str]:
    """Return what a strict compiler says of all that is in a folder."""
    project = folder.parent / f"tsconfig.{folder.name}.json"
    project.write_text(f'{{"extends": "./tsconfig.json", "include": ["{folder.name}"]}}\n', "utf-8")
    ran = kit.node("tsc", "--noEmit", "--project", str(project))
    return ran.text.splitlines() if ran.code else []
