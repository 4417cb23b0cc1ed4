from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from handlers.coordinator import workflows
from handlers.coordinator.workflows.digest import digest_of, digest_of_text
from handlers.coordinator.workflows.files import Finding
from handlers.coordinator.workflows.package import MAX_FILES, Package, RefusedPackageError, check, load
from tests.handlers.coordinator.workflows.building import asking, write

SEED = 20261130
DEMO = Path(workflows.__file__).parent / "demo"

FAULTY = """\
id: case-follow-up
version: 1
deadlineSeconds: 86400
retries: 3
input:
  type: object
  properties:
    caseId: {type: strng}
    n: {pattern: '(?=x)', minLenght: 2}
    day: {enum: [yes, no]}
triggers:
  case-created:
    source: urn:gatehouse:demo
    type: case-created-v1
    input:
      caseId: event.dta.caseId
      note: &note "'a' + event.id"
      when: >-
        timestamp(event.time) +
        minutes(5)
  case-created: {}
start: pause
steps:
  pause:
    type: wait-until
    until: timestamp(run.admittedAt) +
    next: choice
  choice:
    type: choose
    cases:
      - {when: true && run.nothing == 200, next: pause}
      - {when: "has(input.caseId)", next: gone}
  tell:
    type: call
    connection: registry
    method: get
    path: /cases/{caseId}
    next: done
  done:
    type: finish
    outcome: follwed-up
    output: {caseId: input.caseId, at: 9007199254740993}
outcomes:
  followed-up: {}
"""

FOUND = [
    (2, "1", "version: must be text"),
    (4, "retries", "retries: no such member is known here"),
    (8, "strng", "input.properties.caseId.type: must be a type of JSON"),
    (9, "'(?=x)'", "input.properties.n.pattern: is no pattern"),
    (9, "minLenght", "input.properties.n.minLenght: no such keyword"),
    (10, "yes", "'yes' is not the same to every reader"),
    (10, "no]", "'no' is not the same to every reader"),
    (12, "case-created", "triggers.case-created: the member dataschema is missing"),
    (16, "event.dta", "triggers.case-created.input.caseId: event has no member 'dta'"),
    (17, "&note", "anchors are not read"),
    (20, "minutes", "triggers.case-created.input.when: minutes() is not known here"),
    (21, "case-created", "'case-created' stands here twice"),
    (26, None, "steps.pause.until: it cannot be read as CEL: mismatched input '<EOF>'"),
    (28, "choice", "steps.choice: the member else is missing"),
    (31, "run.nothing", "steps.choice.cases.0.when: run has no member 'nothing'"),
    (31, "pause", "steps.choice.cases.0.next: leads back to pause"),
    (32, "gone", "steps.choice.cases.1.next: there is no step gone"),
    (33, "tell", "steps.tell: nothing leads to this step"),
    (36, "get", "steps.tell.method: must be one of GET"),
    (37, "/cases", "steps.tell.path: the parameter caseId is not given"),
    (39, "done", "steps.done: nothing leads to this step"),
    (41, "follwed-up", "steps.done.outcome: the outcome follwed-up is not declared"),
    (42, "9007199254740993", "the value has a number beyond 2^53-1"),
    (44, "followed-up", "outcomes.followed-up: no step finishes so"),
]


def place(line: int, word: str | None) -> tuple[int, int]:
    text = FAULTY.splitlines()[line - 1]
    return line, len(text) + 1 if word is None else text.index(word) + 1


def found(folder: Path) -> list[tuple[str, int, int, str]]:
    return [(Path(each.file).name, each.line, each.column, each.message) for each in check(folder)]


def test_the_demo_package_has_no_fault_and_does_what_it_says() -> None:
    assert check(DEMO) == []
    [workflow] = load(DEMO).workflows.values()
    assert (workflow.id, list(workflow.triggers)) == ("case-follow-up", ["case-created"])
    assert workflow.connections == ("demo-receiver",)


def test_every_fault_of_a_file_is_told_with_its_line_and_column(tmp_path: Path) -> None:
    file = write(tmp_path, "faulty.yaml", FAULTY)
    findings = check(tmp_path)
    assert {each.file for each in findings} == {str(file)}
    expected = [(*place(line, word), words) for line, word, words in FOUND]
    assert [(each.line, each.column) for each in findings] == sorted((line, column) for line, column, _ in expected)
    for line, column, words in expected:
        assert any((each.line, each.column) == (line, column) and words in each.message for each in findings), words


def test_a_finding_reads_as_editors_follow_it(tmp_path: Path) -> None:
    file = write(tmp_path, "a.yaml", asking(version=1))
    [finding] = check(tmp_path)
    assert str(finding) == f"{file}:3:13: version: must be text (in quotes, where it looks like something else)"


def test_the_faults_of_all_files_are_told_and_one_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "id: [")
    write(tmp_path, "b.yml", asking(version=1))
    write(tmp_path, "c.yaml", asking(id="other"))
    (tmp_path / "d.yaml").write_bytes(b"id: \xff")
    write(tmp_path, "e.yaml", "- 1")
    assert [each[:2] for each in found(tmp_path)] == [("a.yaml", 1), ("b.yml", 3), ("d.yaml", 1), ("e.yaml", 1)]


def test_two_files_do_not_have_one_workflow(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", asking())
    write(tmp_path, "b.yaml", asking(version="2"))
    assert found(tmp_path) == [("b.yaml", 2, 8, "id: the workflow case-decision stands in a.yaml already")]


def test_only_files_of_yaml_belong_to_a_package(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", asking())
    write(tmp_path, "README.md", "not YAML: [")
    write(tmp_path, "a.yaml.bak", "id: [")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    assert check(tmp_path) == []


def test_a_folder_that_is_not_there_or_has_no_workflow_is_a_finding(tmp_path: Path) -> None:
    assert [each.message for each in check(tmp_path)] == [
        f"a package has 1 to {MAX_FILES} files that end in .yaml or .yml"
    ]
    assert check(tmp_path / "none") == [
        Finding(str(tmp_path / "none"), 1, 1, "cannot be read: No such file or directory")
    ]
    assert "Not a directory" in check(write(tmp_path, "a.yaml", asking()))[0].message


def test_a_file_that_cannot_be_opened_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.yaml", asking())

    def refuse(_file: Path, _mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert found(tmp_path) == [("a.yaml", 1, 1, "cannot be read: Permission denied")]


def test_a_package_is_bounded_in_files_and_characters(tmp_path: Path) -> None:
    many, large = tmp_path / "many", tmp_path / "large"
    many.mkdir()
    large.mkdir()
    for number in range(MAX_FILES + 1):
        (many / f"{number}.yaml").touch()
    for number in range(17):
        write(large, f"{number:02}.yaml", json.dumps(asking(id=f"w{number}")) + "\n#" + "x" * 250_000)
    assert "1 to 256 files" in check(many)[0].message
    assert [each.message for each in check(large)] == ["a package has at most 4,194,304 characters"]


def test_a_loaded_package_has_a_canonical_snapshot_and_its_digest(tmp_path: Path) -> None:
    write(tmp_path, "z.yaml", asking(id="a"))
    write(tmp_path, "a.yaml", asking(id="b"))
    package = load(tmp_path)
    held = json.loads(package.snapshot)
    assert package.snapshot.encode() == rfc8785.dumps(held)
    assert held == {"format": 1, "workflows": [asking(id="a"), asking(id="b")]}
    assert package.digest == digest_of_text(package.snapshot.encode())
    assert {name: each.digest for name, each in package.workflows.items()} == {
        name: digest_of(asking(id=name)) for name in "ab"
    }


def test_the_digest_does_not_hang_on_spelling_or_names_of_files(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    write(one, "a.yaml", "# a comment\n" + json.dumps(asking(deadlineSeconds=60)))
    write(other, "b.yml", json.dumps(dict(reversed(asking().items())) | {"deadlineSeconds": 6.0e1}, indent=2))
    assert load(one).digest == load(other).digest


def test_a_snapshot_gives_the_same_package_back(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.yaml",
        asking(input={"properties": {"n": {"minimum": 0.5, "maximum": 1e15, "const": "\U0001f600"}}}),
    )
    package = load(tmp_path)
    restored = Package.from_snapshot(package.snapshot)
    assert (restored.digest, restored.snapshot) == (package.digest, package.snapshot)
    assert restored.workflows["case-decision"].digest == package.workflows["case-decision"].digest
    assert restored.workflows["case-decision"].definition == package.workflows["case-decision"].definition


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"format": 2, "workflows": []}, "format 2 is not known"),
        ({"format": 1, "workflows": [asking(version=1)]}, "case-decision:1:1: version: must be text"),
    ],
)
def test_a_snapshot_that_this_version_does_not_take_is_refused(held: Any, words: str) -> None:
    with pytest.raises(RefusedPackageError, match=words):
        Package.from_snapshot(rfc8785.dumps(held).decode())


def test_a_package_with_faults_is_not_loaded(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", asking(version=1))
    with pytest.raises(RefusedPackageError) as refused:
        load(tmp_path)
    assert refused.value.findings == check(tmp_path)


SCRAPS = [
    b"",
    b"\n",
    b"  ",
    b": ",
    b"- ",
    b"[",
    b"}",
    b"'",
    b'"',
    b"&a ",
    b"*a",
    b"!!x ",
    b"|\n",
    b">",
    b"#",
    b"\t",
    b"\r",
]
SCRAPS += [b"\x00", b"\xff", b"\xc2\x85", b"\xed\xa0\x80", b"null", b"1e9", b"---\n", b"? ", b"%"]


@pytest.mark.parametrize("part", range(4))
def test_a_file_that_was_garbled_gives_findings_and_nothing_else(tmp_path: Path, part: int) -> None:
    chance = random.Random(SEED + part)
    demo = (DEMO / "case-follow-up.yaml").read_bytes()
    for _ in range(100):
        garbled = bytearray(demo)
        for _ in range(chance.randint(1, 5)):
            start = chance.randrange(len(garbled))
            garbled[start : start + chance.choice([0, 1, 5, 40])] = chance.choice(SCRAPS)
        (tmp_path / "a.yaml").write_bytes(garbled)
        findings = check(tmp_path)
        lines = garbled.count(b"\n") + 1
        assert all(1 <= each.line <= lines and each.column >= 1 for each in findings), bytes(garbled)
        if not findings:
            load(tmp_path)
