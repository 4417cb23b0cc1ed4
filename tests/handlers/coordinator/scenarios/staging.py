"""A package and its scenarios, made in a folder, for the tests of what reads and carries them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from handlers.coordinator.scenarios.scenario import Scenario, load
from handlers.coordinator.workflows import package as packages
from handlers.coordinator.workflows.package import Package
from tests.handlers.coordinator.workflows.building import asking, write

# What the package of `made` is asked for, in the order of its steps: ask, decide, pause, done.
STARTED = {"name": "a scenario", "input": {"caseId": "C-1"}}


def made(folder: Path, **definition: Any) -> Package:
    """Return the package of a folder that has one workflow, building.asking with these changes."""
    write(folder, "a.yaml", asking(**definition))
    return packages.load(folder)


def put(folder: Path, scenario: Any, name: str = "one.yaml") -> Path:
    """Write a scenario, or a text, into a package's folder."""
    (folder / "scenarios").mkdir(exist_ok=True)
    file = folder / "scenarios" / name
    file.write_text(scenario if isinstance(scenario, str) else json.dumps(scenario, indent=1))
    return file


def scenario(folder: Path, package: Package, **members: Any) -> Scenario:
    """Return a scenario of the package in a folder, made of STARTED and these members; an ellipsis takes one away."""
    put(folder, {name: value for name, value in {**STARTED, "expect": {}, **members}.items() if value is not ...})
    loaded = load(folder, package)
    assert loaded.findings == []
    [found] = loaded.scenarios
    return found
