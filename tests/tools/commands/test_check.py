from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.tools.commands.conftest import Command

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for room in ("spec", "generated"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.usefixtures("project")
def test_documents_and_generated_code_in_step_pass(gatehouse: Command) -> None:
    for command in ("spec", "generated"):
        done = gatehouse("check", command, "--json")
        assert (done.returncode, json.loads(done.stdout)) == (0, {"findings": []})


def test_a_fault_of_a_document_is_told_with_file_line_and_column(gatehouse: Command, project: Path) -> None:
    document = project / "spec" / "coordinator.yaml"
    text = document.read_text()
    document.write_text(text.replace("operationId: admitEvent", "operationId: admit_event"))
    line = text[: text.index("operationId: admitEvent")].count("\n")
    done = gatehouse("check", "spec")
    assert done.returncode == 1
    assert re.search(rf"^spec/coordinator\.yaml:{line}:\d+: .*operation", done.stdout, re.MULTILINE)
    (finding, *_) = json.loads(gatehouse("check", "spec", "--json").stdout)["findings"]
    assert finding["line"] == line
    assert finding["pointer"].startswith("/paths")


def test_generated_code_out_of_step_is_shown_with_the_command_that_mends_it(gatehouse: Command, project: Path) -> None:
    with (project / "generated" / "runtime.py").open("a") as file:
        file.write("# edited\n")
    done = gatehouse("check", "generated")
    assert done.returncode == 1
    assert "-# edited" in done.stdout
    assert "make generate" in done.stdout
    (finding,) = json.loads(gatehouse("check", "generated", "--json").stdout)["findings"]
    assert (finding["path"], finding["kind"]) == ("generated/runtime.py", "changed")


def test_a_folder_without_documents_is_refused(gatehouse: Command) -> None:
    for command in ("spec", "generated"):
        done = gatehouse("check", command)
        assert (done.returncode, done.stdout) == (1, "")
        assert "no document" in done.stderr
