from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.tools.commands.conftest import Command
from tools import settings
from tools.state import SETTINGS, StateFolder


def key_files(folder: StateFolder, workflow: str, trigger: str) -> tuple[Path, ...]:
    events = settings.load(folder.settings_file).events
    return next(each.key_files for each in events if (each.workflow, each.trigger) == (workflow, trigger))


def test_a_key_is_made_and_named_in_the_settings_whose_text_stays(gatehouse: Command, folder: StateFolder) -> None:
    folder.settings_file.chmod(0o640)
    done = gatehouse("sources", "add", "welcome", "person.created", "--state", folder.path, "--json")
    key = folder.sources / "welcome--person-created.key"
    assert json.loads(done.stdout) == {
        "workflow": "welcome",
        "trigger": "person.created",
        "keyFile": str(key),
        "made": True,
    }
    assert (len(key.read_bytes()), stat.S_IMODE(key.stat().st_mode)) == (32, 0o600)
    assert key_files(folder, "welcome", "person.created") == (key,)
    assert stat.S_IMODE(folder.settings_file.stat().st_mode) == 0o640
    text = folder.settings_file.read_text()
    assert [line for line in SETTINGS.splitlines() if line not in text.splitlines()] == []
    assert "keyFiles: [sources/welcome--person-created.key]" in text


def test_a_second_key_rotates_and_a_third_is_refused(gatehouse: Command, folder: StateFolder) -> None:
    second = gatehouse("sources", "add", "case-follow-up", "case-created", "--state", folder.path)
    assert second.returncode == 0
    assert key_files(folder, "case-follow-up", "case-created") == (
        folder.demo_key,
        folder.sources / "case-follow-up--case-created.key",
    )
    before = folder.settings_file.read_text()
    third = gatehouse("sources", "add", "case-follow-up", "case-created", "--state", folder.path)
    assert third.returncode == 1
    assert "has two key files" in third.stderr
    assert folder.settings_file.read_text() == before
    assert len(list(folder.sources.iterdir())) == 2


def test_a_key_that_is_there_is_taken_as_it_is(gatehouse: Command, folder: StateFolder, tmp_path: Path) -> None:
    key = tmp_path / "given.key"
    key.write_bytes(b"k" * 40)
    done = gatehouse("sources", "add", "w", "t", "--key-file", "given.key", "--state", folder.path)
    assert done.returncode == 0
    assert key.read_bytes() == b"k" * 40
    assert key_files(folder, "w", "t") == (key,)


def test_a_key_file_that_is_not_there_is_made(gatehouse: Command, folder: StateFolder, tmp_path: Path) -> None:
    assert gatehouse("sources", "add", "w", "t", "--key-file", "new.key", "--state", folder.path).returncode == 0
    assert len((tmp_path / "new.key").read_bytes()) == 32


def test_names_that_are_no_file_names_get_one_all_the_same(gatehouse: Command, folder: StateFolder) -> None:
    for trigger in ("../t", "..:t"):
        assert gatehouse("sources", "add", "w", trigger, "--state", folder.path).returncode == 0
    assert {file.name for file in folder.sources.iterdir()} == {"demo.key", "w-----t.key", "w-----t-2.key"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["case-follow-up", "case-created", "--key-file", "state/sources/demo.key"], "already"),
        (["w", "t", "--key-file", "short.key"], "fewer than 32 bytes"),
        (["w" * 65, "t"], "at most 64 characters"),
        (["w", ""], "at least 1 character"),
    ],
)
def test_what_would_not_work_is_refused_and_nothing_changes(
    gatehouse: Command, folder: StateFolder, tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "short.key").write_bytes(b"short")
    done = gatehouse("sources", "add", *arguments, "--state", folder.path)
    assert done.returncode == 1
    assert words in done.stderr
    assert folder.settings_file.read_text() == SETTINGS
    assert [file.name for file in folder.sources.iterdir()] == ["demo.key"]


def test_settings_that_are_a_link_stay_one(gatehouse: Command, folder: StateFolder, tmp_path: Path) -> None:
    real = folder.settings_file.rename(tmp_path / "real.yaml")
    folder.settings_file.symlink_to(real)
    assert gatehouse("sources", "add", "w", "t", "--state", folder.path).returncode == 0
    assert folder.settings_file.is_symlink()
    assert "workflow: w" in real.read_text()
