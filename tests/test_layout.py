from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ROOMS: Final = ("handlers", "storage", "tools")

# What is proved by features instead of by modules, and where.
BY_FEATURE: Final = {
    "storage/migrations": "tests/storage/test_migrations.py",
    "tools/bench/peers": "tests/tools/bench/peers",
    "tools/clients": "tests/clients/test_makers.py",
    "tools/contract/hooks": "tests/contract/test_schemathesis.py",
    "tools/contract/run.py": "tests/contract/test_schemathesis.py",
    "tools/diff": "tests/tools/diff",
    "tools/generator": "tests/generator",
}


def modules() -> Iterator[Path]:
    """Every hand-written module that does something, as a path from the root."""
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            if any(
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                for node in ast.walk(ast.parse(file.read_bytes()))
            ):
                yield file.relative_to(ROOT)


def mirror(module: Path) -> Path:
    """Where the tests of a module are; those of a package's own code bear the name of the package."""
    name = module.parent.name if module.name == "__init__.py" else module.stem
    return Path("tests") / module.parent / f"test_{name}.py"


def test_every_module_has_its_tests_in_the_same_place() -> None:
    mirrored = [module for module in modules() if not str(module).startswith(tuple(BY_FEATURE))]
    assert len(mirrored) > 50
    assert [str(mirror(module)) for module in mirrored if not (ROOT / mirror(module)).exists()] == []


def test_what_is_proved_by_features_is_there() -> None:
    assert [place for pair in BY_FEATURE.items() for place in pair if not (ROOT / place).exists()] == []


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {file.parent for file in (ROOT / "tests").rglob("test_*.py")}
    assert [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()] == []
