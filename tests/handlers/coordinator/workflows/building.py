"""Definitions to check and change, and a child process to prove that nothing ends one."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parents[4]

EVENT_SCOPE: Final = {"event": {"data": None, "id": None, "time": None}}

# Each step type, each kind of mapping, a connection and two ways that meet again.
ASKING: Final[dict[str, Any]] = {
    "id": "case-decision",
    "version": "1",
    "deadlineSeconds": 3600,
    "input": {"type": "object", "required": ["caseId"], "properties": {"caseId": {"type": "string"}}},
    "triggers": {
        "case-created": {
            "source": "urn:gatehouse:demo",
            "type": "case-created-v1",
            "dataschema": "urn:gatehouse:demo:case-created-v1",
            "input": {"caseId": "event.data.caseId"},
        }
    },
    "start": "ask",
    "steps": {
        "ask": {
            "type": "call",
            "connection": "registry",
            "method": "POST",
            "path": "/cases/{case}/decision",
            "parameters": {"case": "input.caseId"},
            "query": {"wait": True, "run": "run.id"},
            "body": {"at": "run.admittedAt", "urgent": "'no'"},
            "next": "decide",
        },
        "decide": {
            "type": "choose",
            "cases": [{"when": "steps.ask.status == 202", "next": "pause"}],
            "else": "done",
        },
        "pause": {
            "type": "wait-until",
            "until": "timestamp(steps.ask.endedAt) + duration('1h')",
            "next": "done",
        },
        "done": {"type": "finish", "outcome": "decided", "output": "steps.ask.body"},
    },
    "outcomes": {"decided": {"type": "object"}},
}


def asking(**changes: Any) -> dict[str, Any]:
    """Return the definition above with other members; a name such as steps__ask__next leads into it."""
    definition = copy.deepcopy(ASKING)
    for name, value in changes.items():
        *above, last = name.split("__")
        holder = definition
        for part in above:
            holder = holder[part]
        if value is Ellipsis:
            del holder[last]
        else:
            holder[last] = value
    return definition


def write(folder: Path, name: str, definition: Any) -> Path:
    """Write a definition as a file of a package; JSON is YAML too."""
    file = folder / name
    text = definition if isinstance(definition, str) else json.dumps(definition, indent=1, ensure_ascii=False)
    file.write_text(text, encoding="utf-8")
    return file


def run_child(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python that has at most 2 GiB and a minute of CPU, and prints what it found."""
    bounds = "import resource as r; r.setrlimit(r.RLIMIT_AS, (2 << 30,) * 2); r.setrlimit(r.RLIMIT_CPU, (60, 60))\n"
    return subprocess.run(
        [sys.executable, "-c", bounds + code], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
