"""Small documents, and the worst that a comparison says of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.diff import report
from tools.diff.report import Compared
from tools.diff.verdicts import Change

ORDER = ["safe", "risky", "breaking"]


def pairs(name: str) -> list[dict[str, Any]]:
    """Return the pairs of one of the files beside this one."""
    found: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name(name).read_text("utf-8"))
    return found


def document(version: str = "1.0.0", **members: Any) -> dict[str, Any]:
    return {"openapi": "3.1.1", "info": {"title": "Things", "version": version}, "paths": {}, **members}


def compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> Compared:
    (found,) = report.compare({"things.yaml": old}, {"things.yaml": new})
    return found


def worst(changes: list[Change]) -> Change | None:
    return max(changes, key=lambda change: ORDER.index(change.verdict), default=None)
