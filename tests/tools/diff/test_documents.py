from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.tools.diff.conftest import document
from tools.diff.documents import SourceError, described, load

SPEC = Path("spec")


def git(*arguments: str) -> None:
    who = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two revisions of one document, 1.0.0 and 1.1.0; 1.2.0 is in the working tree. A piece lies beside it."""
    root = tmp_path_factory.mktemp("repository")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        (root / "spec" / "inner").mkdir(parents=True)
        git("init")
        for version in ("1.0.0", "1.1.0"):
            (SPEC / "things.json").write_text(json.dumps(document(version)))
            (SPEC / "pieces.yaml").write_text("Name: {type: string}")
            (SPEC / "notes.txt").write_text("Not a document.")
            git("add", "spec")
            git("commit", "-m", version)
        git("tag", "-a", "-m", "The first", "first", "main~1")
        (SPEC / "things.json").write_text(json.dumps(document("1.2.0")))
    return root


@pytest.fixture(autouse=True)
def inside(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)


@pytest.mark.parametrize(
    ("source", "version"),
    [
        ("spec", "1.2.0"),
        ("spec/things.json", "1.2.0"),
        ("main", "1.1.0"),
        ("main:spec", "1.1.0"),
        ("main~1:spec/things.json", "1.0.0"),
        ("first", "1.0.0"),
    ],
)
def test_a_side_is_a_path_or_a_revision(source: str, version: str) -> None:
    documents = load(source, SPEC)
    assert described(documents) == ["things.json"]
    assert documents["things.json"]["info"]["version"] == version


def test_a_folder_holds_pieces_beside_its_documents() -> None:
    assert load("main", SPEC)["pieces.yaml"] == {"Name": {"type": "string"}}


@pytest.mark.parametrize("spec", [Path(".."), Path("../../spec")])
def test_the_folder_of_a_revision_is_taken_from_where_the_command_is_called(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("spec/inner")
    assert described(load("main", spec)) == ["things.json"]
    assert described(load("main", spec.resolve())) == ["things.json"]


@pytest.mark.parametrize("source", ["nobody", "main:absent", "--all", "-h", "HEAD:../..", ""])
def test_what_is_neither_a_path_nor_a_revision_is_refused(source: str) -> None:
    with pytest.raises(SourceError):
        load(source, SPEC)


def test_a_document_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text(f'{{"openapi": "3.1.0", "x-a": {"[" * 5_000}{"]" * 5_000}}}')
    with pytest.raises(SourceError, match="too deeply"):
        load(str(tmp_path / "deep.json"), SPEC)


def test_a_revision_without_the_folder_is_refused() -> None:
    with pytest.raises(SourceError, match="main has no elsewhere"):
        load("main", Path("elsewhere"))


def test_a_machine_without_git_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceError, match="git is not installed"):
        load("main", SPEC)
