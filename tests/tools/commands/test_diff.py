from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools.commands.conftest import Command


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def write(file: Path, version: str, schema: Any) -> Path:
    content = {"application/json": {"schema": schema}}
    operation = {"operationId": "put", "requestBody": {"content": content}, "responses": {"204": {"description": ""}}}
    info = {"title": "Things", "version": version}
    file.parent.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump({"openapi": "3.1.1", "info": info, "paths": {"/things": {"put": operation}}}))
    return file


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return write(tmp_path / "old.yaml", "1.4.0", {"enum": ["info", "warn", "error"]})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A document in a repository of git, as `main` has it."""
    document = write(tmp_path / "spec" / "things.yaml", "1.4.0", {"type": "string", "maxLength": 9})
    git(tmp_path, "init")
    git(tmp_path, "add", "spec")
    git(tmp_path, "commit", "-m", "Add the document")
    return document


def test_the_working_tree_is_compared_with_a_revision(gatehouse: Command, project: Path) -> None:
    done = gatehouse("diff", "main")
    assert (done.returncode, done.stdout) == (0, "no change\n")
    write(project, "1.4.0", {"type": "string", "maxLength": 8})
    assert gatehouse("diff", "main").returncode == 1


def test_a_change_that_breaks_clients_is_told_to_people_and_ends_with_1(
    gatehouse: Command, old: Path, tmp_path: Path
) -> None:
    new = write(tmp_path / "new.yaml", "1.5.0", {"enum": ["info", "error"]})
    done = gatehouse("diff", old, new)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "new.yaml: 1.4.0 -> 1.5.0",
        "  breaking  request  paths./things.put.requestBody.content.application/json.schema.enum",
        '      Refuses "warn", accepted before. (put)',
        "1 breaking, 0 risky, 0 safe",
        "new.yaml breaks clients: info.version has to be 2.0.0 or later, and is 1.5.0",
    ]


def test_machines_are_told_the_same(gatehouse: Command, old: Path, tmp_path: Path) -> None:
    done = gatehouse("diff", old, write(tmp_path / "new.yaml", "1.5.0", {"enum": ["info", "error"]}), "--json")
    assert done.returncode == 1
    change = {
        "verdict": "breaking",
        "direction": "request",
        "path": "paths./things.put.requestBody.content.application/json.schema.enum",
        "operations": ["put"],
        "message": 'Refuses "warn", accepted before.',
    }
    document = {"name": "new.yaml", "old": "1.4.0", "new": "1.5.0", "allowed": False, "changes": [change]}
    counts = {"breaking": 1, "risky": 0, "safe": 0}
    assert json.loads(done.stdout) == {"allowed": False, "counts": counts, "documents": [document]}


def test_a_new_major_version_may_break_clients(gatehouse: Command, old: Path, tmp_path: Path) -> None:
    done = gatehouse("diff", old, write(tmp_path / "new.yaml", "2.0.0", {"enum": ["info", "error"]}))
    assert done.returncode == 0
    assert "1 breaking" in done.stdout


def test_a_folder_is_compared_document_by_document(gatehouse: Command, tmp_path: Path) -> None:
    for folder in ("before", "after"):
        write(tmp_path / folder / "kept.yaml", "0.1.0", {"type": "string"})
    write(tmp_path / "before" / "gone.yaml", "0.1.0", {})
    write(tmp_path / "after" / "new.yaml", "0.1.0", {})
    done = gatehouse("diff", "before", "after")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "gone.yaml: 0.1.0 -> none",
        "  breaking  both     gone.yaml",
        "      The document is gone.",
        "new.yaml: none -> 0.1.0",
        "  safe      both     new.yaml",
        "      The document is new.",
        "1 breaking, 0 risky, 1 safe",
        "gone.yaml breaks clients",
    ]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere", "neither a file or folder nor a revision"),
        ("--", "neither a file or folder nor a revision"),
        ("main:nowhere", "neither a file or folder nor a revision"),
        ("empty", "no document of OpenAPI 3.1"),
        ("odd.yaml", "odd.yaml:1:1: is not a mapping"),
        ("older.yaml", "OpenAPI 3.0.3, and 3.1 alone is compared"),
        ("unsound.yaml", "unsound.yaml:12:13: this is not as OpenAPI 3.1 has it"),
    ],
)
def test_what_is_no_document_is_refused(gatehouse: Command, tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd.yaml").write_text("[]")
    (tmp_path / "older.yaml").write_text('openapi: "3.0.3"')
    write(tmp_path / "unsound.yaml", "1.0.0", {"maxLength": "long"})
    done = gatehouse("diff", "--", source)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
