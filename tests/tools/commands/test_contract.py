from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.gatehouse import Gatehouse
from tests.tools.commands.conftest import Command
from tools.commands.contract import Target
from tools.contract.run import AUTHORITY_VARIABLE, CODE_VARIABLE, KEY_VARIABLE, OPERATOR_VARIABLE
from tools.state import StateFolder

QUICK = ("--operation", "live", "--phase", "fuzzing", "--examples", "1")


def test_a_running_server_is_found_by_its_state_folder(server: Gatehouse, gatehouse: Command) -> None:
    done = gatehouse("check", "server", "--state", server.state, "--api", "coordinator", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "coordinator: 1 operations" in done.stdout
    assert "--seed" in done.stdout
    assert server.token not in done.stdout + done.stderr


def test_a_server_is_found_by_its_url_and_secrets_come_from_files_and_the_environment(
    server: Gatehouse, gatehouse: Command
) -> None:
    order = ("check", "server", server.control, "--key-file", server.state / "sources/demo.key", *QUICK)
    done = gatehouse(*order, "--seed", "7", "--json", GATEHOUSE_OPERATOR_TOKEN=server.token)
    value = json.loads(done.stdout)
    assert (done.returncode, value["seed"], value["findings"]) == (0, 7, [])
    assert [each["api"] for each in value["apis"]] == ["coordinator"]
    assert value["apis"][0]["runs"][0]["operations"]["tested"] == 1


def test_it_is_a_finding_that_nothing_was_tried(server: Gatehouse, gatehouse: Command) -> None:
    options = ("--operation", "live", "--phase", "examples", "--json")
    done = gatehouse("check", "server", "--state", server.state, "--api", "coordinator", *options)
    assert done.returncode == 1
    assert "Not everything was tried" in {finding["title"] for finding in json.loads(done.stdout)["findings"]}


def test_a_server_that_is_away_ends_with_3(folder: StateFolder, gatehouse: Command) -> None:
    done = gatehouse("check", "server", "http://127.0.0.1:1", "--state", folder.path, "--api", "coordinator", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["error"] == "unreachable"


def test_what_an_api_wants_is_told_where_it_is_not_given(gatehouse: Command) -> None:
    done = gatehouse("check", "server", "http://127.0.0.1:1", "--api", "join")
    assert done.returncode == 1
    for option in ("--join-url", "GATEHOUSE_OPERATOR_TOKEN", "--ca"):
        assert option in done.stderr
    assert gatehouse("check", "server", "http://127.0.0.1:1").returncode == 1


@pytest.mark.parametrize("options", [["--api", "none"], ["--seed", "-1"], ["--examples", "0"], ["nowhere"]])
def test_a_wrong_use_ends_with_2(options: list[str], gatehouse: Command) -> None:
    assert gatehouse("check", "server", *options).returncode == 2


def test_a_folder_that_is_not_there_is_refused(gatehouse: Command, tmp_path: Path) -> None:
    done = gatehouse("check", "server", "--state", tmp_path / "none")
    assert done.returncode == 1
    assert "gatehouse init" in done.stderr


def test_an_api_is_tried_with_what_it_needs_and_no_more() -> None:
    installer = Target({"installer": "https://127.0.0.1:9443"}, {AUTHORITY_VARIABLE: "ca.pem", CODE_VARIABLE: "X"})
    assert installer.lacking("installer") == []
    assert installer.lacking("coordinator") == ["URL", "GATEHOUSE_OPERATOR_TOKEN", "--key-file"]
    secrets = {OPERATOR_VARIABLE: "x", KEY_VARIABLE: "00"}
    assert Target({"control": "http://127.0.0.1:8080"}, secrets).lacking("coordinator") == []
