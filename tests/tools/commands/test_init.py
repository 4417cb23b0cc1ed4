from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.storage.postgresql import Server, serving_or_skipped
from tests.support.effort import tries
from tests.support.gatehouse import wait_for
from tests.tools.commands.conftest import GATEHOUSE, Command
from tools.commands import database, init
from tools.commands.event import DEMO, DEMO_NAMES
from tools.commands.folder import settings_of
from tools.settings import VARIABLES
from tools.state import StateFolder, make_folder

MADE = [
    *("ca/ca.key", "ca/ca.pem", "ca/installer.key", "ca/installer.pem", "ca/join.key", "ca/join.pem"),
    *("operator.token", "install.code", "sources/demo.key", "install-plan.yaml", "workflows/case-follow-up.yaml"),
    *(f"workflows/scenarios/{name}.yaml" for name in ("deadline", "receiver-away", "refused", "told", "unanswered")),
    "gatehouse.yaml",
]


class KilledError(Exception):
    """Stands for a kill in the middle of the work."""


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Server]:
    with serving_or_skipped() as server:
        yield server


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def active(gatehouse: Command, path: Path) -> list[str]:
    packages = json.loads(gatehouse("workflows", "list", "--state", path, "--json").stdout)["packages"]
    return [workflow["id"] for package in packages if package["active"] for workflow in package["workflows"]]


def test_a_folder_is_made_whole_with_its_demo_package_active(gatehouse: Command, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state"
    done = gatehouse("init", "--state", path, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"state": str(path), "made": [str(path / name) for name in MADE]}
    assert active(gatehouse, path) == ["case-follow-up"]


def test_the_default_folder_is_dot_gatehouse_here(gatehouse: Command, tmp_path: Path) -> None:
    assert gatehouse("init").stdout.splitlines()[-1] == ".gatehouse is ready"
    assert (tmp_path / ".gatehouse" / "gatehouse.yaml").exists()


def test_what_holds_the_data_of_events_is_for_its_owner_alone(gatehouse: Command, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "server.log").touch()
    gatehouse("init", "--state", "used")
    for name in ("gatehouse.db", "audit.jsonl", "gatehouse.yaml", "operator.token"):
        assert stat.S_IMODE((tmp_path / "used" / name).stat().st_mode) == 0o600


def test_a_second_time_changes_nothing(gatehouse: Command, tmp_path: Path) -> None:
    gatehouse("init", "--state", "state")
    before = contents(tmp_path / "state")
    done = gatehouse("init", "--state", "state", "--json")
    assert json.loads(done.stdout)["made"] == []
    assert contents(tmp_path / "state") == before


def test_two_at_once_make_one_folder(tmp_path: Path, environment: dict[str, str]) -> None:
    command = [GATEHOUSE, "init", "--state", str(tmp_path / "state"), "--json"]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    made = [json.loads(process.communicate(timeout=60)[0])["made"] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(map(len, made)) == [0, len(MADE)]


@pytest.mark.usefixtures("no_variables")
@pytest.mark.parametrize("step", [*range(len(MADE)), "migrate", "apply_first"])
def test_interrupted_at_any_step_it_is_completed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: int | str
) -> None:
    folder = StateFolder(tmp_path / "state")
    make_folder(folder)
    with monkeypatch.context() as patched:
        interrupt(patched, step)
        with pytest.raises(KilledError):
            init.prepare(folder, settings_of(folder, None), None, migrate=False)
    assert not folder.made()
    left = {name: content for name, content in contents(folder.path).items() if name in MADE}
    init.prepare(folder, settings_of(folder, None), None, migrate=False)
    assert left.items() <= contents(folder.path).items()
    assert set(MADE) <= contents(folder.path).keys()
    with sqlite3.connect(folder.database) as connection:
        assert connection.execute("SELECT count(package_digest) FROM switches").fetchone() == (1,)
    connection.close()


def interrupt(patched: pytest.MonkeyPatch, step: int | str) -> None:
    """Let the making of the file number `step`, or the function of that name, end as by a kill."""
    if isinstance(step, str):

        def killed(*_: object, **__: object) -> None:
            raise KilledError

        patched.setattr(database if step == "migrate" else init, step, killed)
        return
    rename = Path.replace
    left = step

    def interrupted(self: Path, target: Path) -> Path:
        nonlocal left
        if left == 0:
            raise KilledError
        left -= 1
        return rename(self, target)

    patched.setattr(Path, "replace", interrupted)


@pytest.mark.parametrize(
    "sign", ["operator.token", "gatehouse.db", "audit.jsonl", "ca/ca.pem"][: tries(4, elsewhere=2)]
)
def test_killed_in_the_middle_it_is_completed_by_the_next(
    gatehouse: Command, tmp_path: Path, environment: dict[str, str], sign: str
) -> None:
    path = tmp_path / "state"
    with subprocess.Popen([GATEHOUSE, "init", "--state", path], env=environment, stdout=subprocess.PIPE) as process:
        wait_for((path / sign).exists)
        process.kill()
    assert gatehouse("init", "--state", path).returncode == 0
    assert active(gatehouse, path) == ["case-follow-up"]


def test_bad_settings_are_refused_before_anything_is_made(gatehouse: Command, tmp_path: Path) -> None:
    done = gatehouse("init", "--state", "state", GATEHOUSE_JOIN_BIND="nowhere")
    assert done.returncode == 1
    assert "environment: GATEHOUSE_JOIN_BIND must be HOST:PORT" in done.stderr
    assert not (tmp_path / "state").exists()


def test_a_file_in_the_folders_place_is_told_by_its_name(gatehouse: Command, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    done = gatehouse("init", "--state", "state")
    assert (done.returncode, done.stderr) == (1, "gatehouse: state: File exists\n")


def test_a_broken_authority_is_told_by_its_file(gatehouse: Command, tmp_path: Path) -> None:
    gatehouse("init", "--state", "state")
    (tmp_path / "state" / "ca" / "join.pem").unlink()
    (tmp_path / "state" / "ca" / "ca.key").write_text("")
    done = gatehouse("init", "--state", "state")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ca/ca.key: no unencrypted private key" in done.stderr


def test_settings_that_stand_elsewhere_are_used_and_none_are_made(gatehouse: Command, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("databaseUrl: sqlite:///other.db\n")
    done = gatehouse("init", "--state", "state", "--config", "other.yaml")
    assert done.returncode == 0
    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / "state" / "gatehouse.yaml").exists()


def test_the_event_that_is_sent_by_default_is_the_demo_packages(gatehouse: Command, tmp_path: Path) -> None:
    gatehouse("init", "--state", "state")
    workflow = yaml.safe_load((tmp_path / "state" / "workflows" / f"{DEMO[0]}.yaml").read_text())
    trigger = workflow["triggers"][DEMO[1]]
    assert {name: trigger[name] for name in DEMO_NAMES} == DEMO_NAMES


def test_a_package_of_ones_own_that_is_broken_is_told_by_line(gatehouse: Command, tmp_path: Path) -> None:
    (tmp_path / "state" / "workflows").mkdir(parents=True)
    (tmp_path / "state" / "workflows" / "mine.yaml").write_text("id: 5\n")
    done = gatehouse("init", "--state", "state", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"][0]["line"] == 1
    assert not (tmp_path / "state" / "gatehouse.yaml").exists()


def test_postgresql_is_migrated_only_where_that_is_asked_for(
    gatehouse: Command, tmp_path: Path, postgresql: Server
) -> None:
    url = postgresql.create("initialised")
    refused = gatehouse("init", "--state", "state", GATEHOUSE_DATABASE_URL=url)
    assert refused.returncode == 1
    assert "gatehouse init --migrate" in refused.stderr
    assert not (tmp_path / "state" / "gatehouse.yaml").exists()
    done = gatehouse("init", "--state", "state", "--migrate", GATEHOUSE_DATABASE_URL=url)
    assert done.returncode == 0
    assert not (tmp_path / "state" / "gatehouse.db").exists()
    again = gatehouse("init", "--state", "state", GATEHOUSE_DATABASE_URL=url)
    assert again.stdout == "state was ready\n"
    postgresql.drop("initialised")


def test_a_database_that_is_away_is_unreachable_and_its_password_is_not_shown(gatehouse: Command) -> None:
    url = "postgresql://gatehouse:hush@127.0.0.1:1/gatehouse"
    done = gatehouse("init", "--state", "state", "--migrate", "--json", GATEHOUSE_DATABASE_URL=url)
    assert (done.returncode, json.loads(done.stdout)["error"]) == (3, "unreachable")
    assert "hush" not in done.stdout + done.stderr
