from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import typer

from tools import settings, state
from tools.commands.folder import address, opened, operator_token, private_files, settings_of, url
from tools.commands.terminal import RefusedError
from tools.state import StateFolder


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in settings.VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_a_folder_is_opened_with_its_settings(folder: StateFolder) -> None:
    found, chosen = opened(folder.path)
    assert found == folder
    assert chosen.database_url == f"sqlite:///{folder.database}"


def test_other_settings_can_be_named_and_the_database_stays_in_the_folder(folder: StateFolder, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("node: n2\n")
    _, chosen = opened(folder.path, other)
    assert (chosen.node, chosen.database_url) == ("n2", f"sqlite:///{folder.database}")


def test_a_folder_that_is_yet_to_be_made_has_the_settings_that_it_will_have(tmp_path: Path) -> None:
    chosen = settings_of(StateFolder(tmp_path / "new"), None)
    assert chosen.events[0].key_files == (tmp_path / "new" / "sources" / "demo.key",)


def test_settings_that_are_missing_are_made_by_init_unless_they_were_named(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="gatehouse init"):
        opened(tmp_path)
    with pytest.raises(RefusedError) as refused:
        opened(tmp_path, tmp_path / "other.yaml")
    assert refused.value.detail == f"{tmp_path / 'other.yaml'} is not there"


def test_every_finding_about_the_settings_is_told(folder: StateFolder) -> None:
    folder.settings_file.write_text("nod: a\njoin: 1\n")
    with pytest.raises(RefusedError) as refused:
        opened(folder.path)
    file = folder.settings_file
    assert refused.value.detail.splitlines() == [
        "the settings are refused:",
        f"  {file}:1:1: nod is not a setting (did you mean node?)",
        f"  {file}:2:1: join must be a mapping",
    ]
    assert len(refused.value.body["findings"]) == 2


def test_new_files_are_for_their_owner_alone_while_that_is_asked_for(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        with private_files():
            (tmp_path / "private").touch()
        (tmp_path / "public").touch()
    finally:
        os.umask(mask)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("private", "public")] == [0o600, 0o644]


def test_a_token_that_is_missing_is_refused(folder: StateFolder) -> None:
    folder.operator_token.write_text("t-1\n")
    assert operator_token(folder) == "t-1"
    folder.operator_token.unlink()
    with pytest.raises(RefusedError, match=r"operator\.token"):
        operator_token(folder)


def test_the_address_is_the_one_that_a_running_server_noted_else_the_one_of_the_settings(folder: StateFolder) -> None:
    _, chosen = opened(folder.path)
    assert address(folder, chosen, "control") == "http://127.0.0.1:8080"
    with state.hold(folder.lock_file("control")) as lock:
        lock.note("http://127.0.0.1:40001")
        assert address(folder, chosen, "control") == "http://127.0.0.1:40001"
    assert address(folder, chosen, "control") == "http://127.0.0.1:8080"


def test_without_a_running_server_and_a_port_there_is_no_address(folder: StateFolder) -> None:
    folder.settings_file.write_text("control: {bind: 127.0.0.1:0}\n")
    _, chosen = opened(folder.path)
    with pytest.raises(typer.BadParameter, match="no server runs"):
        address(folder, chosen, "control")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "localhost"),
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104 - read, not bound
        ("::", "[::1]"),
        ("fe80::1", "[fe80::1]"),
    ],
)
def test_a_bound_address_is_reached_under_a_url(host: str, expected: str) -> None:
    assert url(host, 80, tls=False) == f"http://{expected}:80"
    assert url(host, 80, tls=True) == f"https://{expected}:80"
