from __future__ import annotations

from pathlib import Path

from handlers.coordinator.workflows.files import Finding, findings_of, folder_files, read_file
from handlers.gateway.yaml_reader import Fault


def test_the_files_of_a_folder_are_those_of_yaml_that_stand_in_it_itself(tmp_path: Path) -> None:
    (tmp_path / "below.yaml").mkdir()
    for name in ("b.yml", "a.yaml", "README.md", "below.yaml/c.yaml"):
        (tmp_path / name).touch()
    assert [file.name for file in folder_files(tmp_path)] == ["a.yaml", "b.yml"]


def test_a_file_that_cannot_be_read_is_one_finding(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    findings: list[Finding] = []
    assert read_file(tmp_path / "a.yaml", findings) is None
    assert read_file(tmp_path / "none.yaml", findings) is None
    assert [(each.line, each.message[:15]) for each in findings] == [(1, "not YAML: did n"), (1, "cannot be read:")]


def test_of_a_value_that_was_spelled_wrong_its_spelling_alone_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: yes\nb: 1\n")
    document = read_file(file, [])
    assert document is not None
    found = [*findings_of(file, document, [Fault(("a",), "must be true"), Fault(("b",), "must be 2")])]
    assert [str(each).removeprefix(f"{file}:")[:15] for each in found] == ["1:4: 'yes' is n", "2:4: b: must be"]
