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


def test_of_operations_that_are_chosen_only_these_are_tried(server: Gatehouse, gatehouse: Command) -> None:
    done = gatehouse("check", "server", "--state", server.state, "--operation", "live", "--examples", "1", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each["api"] for each in json.loads(done.stdout)["apis"]] == ["coordinator"]
    done = gatehouse("check", "server", "--state", server.state, "--operation", "nothing")
    assert done.returncode == 1
    assert "nothing is no operation" in done.stderr


def test_it_is_a_finding_that_every_credential_is_refused(server: Gatehouse, gatehouse: Command) -> None:
    key = server.state / "sources/demo.key"
    options = ("--operation", "listRuns", "--phase", "fuzzing", "--examples", "1", "--json")
    done = gatehouse("check", "server", server.control, "--key-file", key, *options, GATEHOUSE_OPERATOR_TOKEN="wrong")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (done.returncode, finding["operations"]) == (1, ["listRuns"])
    assert "credential" in finding["title"]


@pytest.mark.parametrize("text", ["", "no certificate"])
def test_an_authority_that_is_none_is_refused(text: str, gatehouse: Command, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(text)
    (tmp_path / "key").write_text("a")
    options = ("--ca", "ca.pem", "--key-file", "key", "--api", "coordinator")
    done = gatehouse("check", "server", "https://127.0.0.1:1", *options, GATEHOUSE_OPERATOR_TOKEN="t")
    assert done.returncode == 1
    assert done.stderr == "gatehouse: the authority's certificate cannot be used\n"


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
