from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.lint.conftest import Edited
from tools.lint import Finding, lint, lint_all

ROOT = Path(__file__).parents[3]


def test_the_documents_of_this_project_are_clean() -> None:
    assert lint_all(ROOT / "spec") == []


def test_the_sample_that_the_other_tests_edit_is_clean(lint_edited: Edited) -> None:
    assert lint_edited() == []


def test_a_finding_says_where_the_fault_is_written(lint_edited: Edited, tmp_path: Path) -> None:
    assert lint_edited(("version: 0.1.0", "version: '1'")) == [
        Finding(tmp_path / "library.yaml", 4, 3, "/info/version", "version", "is no semantic version")
    ]


def test_findings_come_in_the_order_of_their_lines(lint_edited: Edited) -> None:
    found = lint_edited(("title: There is nothing here", "title: Nothing\n    extra: 1"), ("0.1.0", "one"))
    assert [finding.rule for finding in found] == ["extension"]
    found = lint_edited(("headers: {Retry-After: 5}", "headers: {}"), ("0.1.0", "one"))
    assert [finding.rule for finding in found] == ["version", "problem-header"]


def test_a_fault_of_form_hides_what_relies_on_the_form(lint_edited: Edited) -> None:
    found = lint_edited(("#/components/schemas/Lending", "#/components/schemas/Nothing"), ("0.1.0", "one"))
    assert [finding.rule for finding in found] == ["reference"]


def test_a_file_that_is_no_yaml_is_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("openapi: 3.1.1\ninfo: [\n", "utf-8")
    (finding,) = lint(path)
    assert (finding.rule, finding.line, finding.pointer) == ("yaml", 3, "")


def test_every_document_of_a_folder_is_read(library: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(library.replace("version: 0.1.0", "version: x"), "utf-8")
    assert [finding.file.stem for finding in lint_all(tmp_path)] == ["one", "two"]


def test_a_folder_without_documents_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no document"):
        lint_all(tmp_path)
