"""Packages of workflows that are the demo's in everything that a test does not change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Workflow = dict[str, Any]


def workflow(
    name: str = "case-follow-up",
    *,
    version: str = "1",
    triggers: Sequence[str] = ("case-created",),
    deadline_seconds: int = 86_400,
    connection: str | None = None,
    path: str = "/told",
) -> Workflow:
    """Return a workflow; with `connection` its second step sends a POST to that one's `path`."""
    trigger = {
        "source": "urn:gatehouse:demo",
        "type": "case-created-v1",
        "dataschema": "urn:gatehouse:demo:case-created-v1",
        "input": {"caseId": "event.data.caseId"},
    }
    steps: dict[str, Any] = {
        "pause": {"type": "wait-until", "until": "timestamp(run.admittedAt) + duration('5s')", "next": "done"},
        "done": {"type": "finish", "outcome": "followed-up", "output": {"caseId": "input.caseId"}},
    }
    if connection is not None:
        steps["pause"]["next"] = "tell"
        steps["tell"] = {"type": "call", "connection": connection, "method": "POST", "path": path, "next": "done"}
    case = {"type": "object", "required": ["caseId"], "properties": {"caseId": {"type": "string"}}}
    return {
        "id": name,
        "version": version,
        "deadlineSeconds": deadline_seconds,
        "input": case,
        "triggers": dict.fromkeys(triggers, trigger),
        "start": "pause",
        "steps": steps,
        "outcomes": {"followed-up": case},
    }


def connection(base_url: str) -> dict[str, Any]:
    """Return the settings of a connection that permits the call of such a workflow."""
    return {"baseUrl": base_url, "methods": ["POST"], "paths": ["/told"]}


def write(folder: Path, *workflows: Workflow) -> Path:
    """Make the folder of a package, or write it anew, and return it; JSON is YAML."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for each in workflows:
        (folder / f"{each['id']}.yaml").write_text(json.dumps(each, indent=2), encoding="utf-8")
    return folder
