from __future__ import annotations

import os
import re
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate

from handlers.installer.plan import load
from tools import state
from tools.state import HeldError, StateError, StateFolder

DEMO = {"one.yaml": b"id: one\n", "two.yaml": b"id: two\n"}

HOLDER = """
import sys
from pathlib import Path
from tools import state
with state.hold(Path(sys.argv[1])) as lock:
    lock.note("http://127.0.0.1:9")
    print("held", flush=True)
    sys.stdin.read()
"""


class KilledError(Exception):
    """Stands for a kill in the middle of the work."""


def make(folder: StateFolder) -> list[Path]:
    state.make_folder(folder)
    return state.make_files(folder, DEMO) + state.make_settings(folder)


def contents(folder: StateFolder) -> dict[str, bytes]:
    return {str(file.relative_to(folder.path)): file.read_bytes() for file in folder.path.rglob("*") if file.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "deep" / "state")


def test_a_first_start_makes_every_file_that_the_design_lists(folder: StateFolder) -> None:
    made = make(folder)
    assert sorted(str(file.relative_to(folder.path)) for file in made) == sorted(contents(folder))
    assert sorted(contents(folder)) == [
        "ca/ca.key",
        "ca/ca.pem",
        "ca/installer.key",
        "ca/installer.pem",
        "ca/join.key",
        "ca/join.pem",
        "gatehouse.yaml",
        "install-plan.yaml",
        "install.code",
        "operator.token",
        "sources/demo.key",
        "workflows/one.yaml",
        "workflows/two.yaml",
    ]


def test_the_folder_and_its_secrets_are_for_their_owner_alone(folder: StateFolder) -> None:
    mask = os.umask(0)
    try:
        make(folder)
    finally:
        os.umask(mask)
    secret = {name for name in contents(folder) if stat.S_IMODE((folder.path / name).stat().st_mode) == 0o600}
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert secret == {
        *("ca/ca.key", "ca/installer.key", "ca/join.key"),
        *("operator.token", "install.code", "sources/demo.key", "gatehouse.yaml"),
    }


def test_the_secrets_have_their_forms(folder: StateFolder) -> None:
    make(folder)
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}\n", folder.operator_token.read_text())
    assert re.fullmatch(r"[2-9A-HJKMNP-Z]{4}-[2-9A-HJKMNP-Z]{4}\n", folder.install_code.read_text())
    assert len(folder.demo_key.read_bytes()) == 32


def test_two_folders_share_no_secret(tmp_path: Path) -> None:
    folders = [StateFolder(tmp_path / name) for name in ("a", "b")]
    for each in folders:
        make(each)
    secrets = [{contents(each)[name] for name in ("operator.token", "install.code", "ca/ca.key")} for each in folders]
    assert not secrets[0] & secrets[1]


def test_the_listeners_certificates_are_usable_with_their_keys(folder: StateFolder) -> None:
    make(folder)
    for listener in state.TLS_LISTENERS:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder.server_certificate(listener), folder.server_key(listener))


def test_the_install_plan_is_one_that_the_installer_reads(folder: StateFolder) -> None:
    make(folder)
    assert [step.name for step in load(folder.install_plan)] == ["check-config", "stage-files", "verify-files"]


def test_the_install_plans_steps_run_to_their_end(folder: StateFolder, tmp_path: Path) -> None:
    make(folder)
    config = tmp_path / "node.yaml"
    config.write_text("role: founder\n")
    environment = {**os.environ, "GATEHOUSE_NODE_YAML": str(config), "GATEHOUSE_ATTEMPT": "1"}
    for step in load(folder.install_plan):
        subprocess.run(step.command.run, cwd=folder.path, env=environment, check=True, capture_output=True)
    assert (folder.path / "install" / "1" / "node.yaml").read_text() == "role: founder\n"


def test_a_second_start_changes_nothing_that_is_there(folder: StateFolder) -> None:
    make(folder)
    folder.operator_token.write_text("mine\n")
    folder.settings_file.write_text("node: mine\n")
    before = contents(folder)
    assert make(folder) == []
    assert contents(folder) == before


def test_a_package_of_ones_own_gets_no_demo_files(folder: StateFolder) -> None:
    folder.workflows.mkdir(parents=True)
    (folder.workflows / "mine.yaml").write_text("id: mine\n")
    make(folder)
    assert [file.name for file in folder.workflows.iterdir()] == ["mine.yaml"]


def test_a_start_that_is_interrupted_at_any_write_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.replace
    whole = set(contents_of_a_whole_start(tmp_path / "whole"))
    for count in range(len(whole)):
        folder = StateFolder(tmp_path / str(count))
        left = count

        def interrupted(self: Path, target: Path) -> Path:
            nonlocal left
            if left == 0:
                raise KilledError
            left -= 1
            return rename(self, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", interrupted)
            with pytest.raises(KilledError):
                make(folder)
        assert not folder.made()
        kept = {name: content for name, content in contents(folder).items() if not name.endswith(".new")}
        assert len(kept) == count
        make(folder)
        assert set(contents(folder)) == whole
        assert kept.items() <= contents(folder).items()
        for listener in state.TLS_LISTENERS:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(folder.server_certificate(listener), folder.server_key(listener))


def contents_of_a_whole_start(path: Path) -> dict[str, bytes]:
    folder = StateFolder(path)
    make(folder)
    return contents(folder)


def test_a_folder_that_was_empty_becomes_its_owners_alone_and_another_keeps_its_mode(tmp_path: Path) -> None:
    empty, used = tmp_path / "empty", tmp_path / "used"
    for path in (empty, used):
        path.mkdir()
        path.chmod(0o755)
    (used / "notes.txt").write_text("mine")
    for path in (empty, used):
        make(StateFolder(path))
    assert [stat.S_IMODE(path.stat().st_mode) for path in (empty, used)] == [0o700, 0o755]


def test_a_broken_key_of_the_authority_is_told_by_its_file(folder: StateFolder) -> None:
    folder.authority_key.parent.mkdir(parents=True)
    folder.authority_key.write_text("no key")
    with pytest.raises(StateError, match=r"ca\.key: no unencrypted private key"):
        make(folder)


def test_a_broken_certificate_of_the_authority_is_told_by_its_file(folder: StateFolder) -> None:
    folder.authority_certificate.parent.mkdir(parents=True)
    folder.authority_certificate.write_text("no certificate")
    with pytest.raises(StateError, match=r"ca\.pem is no certificate"):
        make(folder)


def test_a_certificate_that_was_removed_is_made_anew_and_verifies_under_the_same_authority(folder: StateFolder) -> None:
    make(folder)
    folder.server_certificate("join").unlink()
    key = folder.server_key("join").read_bytes()
    assert make(folder) == [folder.server_certificate("join")]
    assert folder.server_key("join").read_bytes() == key
    issued, authority = (
        load_pem_x509_certificate(file.read_bytes())
        for file in (folder.server_certificate("join"), folder.authority_certificate)
    )
    issued.verify_directly_issued_by(authority)


def test_the_authority_that_signs_is_the_folder_s_own(folder: StateFolder) -> None:
    make(folder)
    own = state.signing_authority(folder)
    assert own.pem == folder.authority_certificate.read_text()
    folder.authority_key.write_bytes(folder.server_key("join").read_bytes())
    with pytest.raises(StateError, match=r"ca\.key is not the key of .*ca\.pem"):
        state.signing_authority(folder)
    folder.authority_key.unlink()
    with pytest.raises(StateError, match=r"ca\.key: No such file"):
        state.signing_authority(folder)


@pytest.mark.parametrize(("content", "words"), [(b"", "is empty"), (b"\n", "is empty"), (b"t\xc3\xb6ken", "not ASCII")])
def test_a_secret_that_is_none_is_refused(folder: StateFolder, content: bytes, words: str) -> None:
    make(folder)
    folder.operator_token.write_bytes(content)
    with pytest.raises(StateError, match=words):
        folder.read_secret(folder.operator_token)


def test_a_secret_that_is_missing_is_refused_by_its_file(folder: StateFolder) -> None:
    with pytest.raises(StateError, match=r"operator\.token: No such file"):
        folder.read_secret(folder.operator_token)


def test_one_process_holds_a_lock_and_leaves_a_note_until_it_ends(tmp_path: Path) -> None:
    file = tmp_path / "lock.control"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HeldError, match="taken"), state.hold(file, "taken"):
            pass
        assert file.read_text() == "http://127.0.0.1:9"
        holder.communicate("")
    assert file.read_text() == ""
    with state.hold(file, "taken"):
        pass


def test_a_lock_whose_holder_was_killed_can_be_taken(tmp_path: Path) -> None:
    file = tmp_path / "lock.control"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
    with state.hold(file, "taken") as lock:
        assert file.read_text() == ""
        lock.note("mine")
        assert file.read_text() == "mine"


def test_a_file_is_replaced_whole_with_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("a longer text than the new one")
    state.replace(file, b"new", 0o600)
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]


def test_a_note_is_believed_only_while_its_lock_is_held(tmp_path: Path) -> None:
    file = tmp_path / "lock.control"
    assert state.noted(file) == ""
    with state.hold(file) as lock:
        lock.note("http://127.0.0.1:8080\n")
        assert state.noted(file) == "http://127.0.0.1:8080"
        left = file.read_text()
    file.write_text(left)
    assert state.noted(file) == ""
