from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support import forks
from tests.support.gatehouse import PATIENCE_SECONDS, Gatehouse
from tests.tools.commands.conftest import Command, StandIn
from tests.tools.contract.library import CONTENT


class Check:
    """A `gatehouse check traffic` under way; what it said is in `lines` once it has ended."""

    def __init__(self, process: forks.Process) -> None:
        self._process = process
        assert process.stdout is not None
        self._output = process.stdout
        self.first = self._output.readline()
        self.lines: list[str] = []

    @property
    def value(self) -> Any:
        return json.loads(self.lines[-1])

    def end(self, number: int = signal.SIGTERM) -> int:
        self._process.send_signal(number)
        code = self._process.wait(PATIENCE_SECONDS)
        self.lines = self._output.read().splitlines()
        self._output.close()
        return code


@contextlib.contextmanager
def checking(tmp_path: Path, environment: dict[str, str], *options: str) -> Iterator[tuple[Check, httpx.Client]]:
    with (tmp_path / "err").open("w") as err:
        check = Check(forks.start(["check", "traffic", *options], environment=environment, stderr=err))
        assert check.first, (tmp_path / "err").read_text()
        url = json.loads(check.first)["listen"] if "--json" in options else check.first.split(" ")[0]
        with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
            yield check, client


def test_what_passes_to_gatehouse_itself_conforms_and_is_counted(
    server: Gatehouse, tmp_path: Path, environment: dict[str, str]
) -> None:
    with checking(tmp_path, environment, "--upstream", server.control, "--json") as (check, client):
        assert client.get("/health").json() == {"live": True}
        assert client.get("/v1/runs", headers=server.operator).status_code == 200
        assert client.get("/v1/runs", headers={"Authorization": "Bearer wrong-s3cret"}).status_code == 401
        assert client.get("/v1/runs?limit=many", headers=server.operator).status_code == 400
    assert check.end() == 0
    assert (check.value["findings"], check.value["exchanges"], check.value["refusedRequests"]) == (0, 4, 1)
    seen = {
        (c["operation"], c["status"], c["code"], c["header"]) for c in check.value["coverage"]["cells"] if c["seen"]
    }
    assert {("live", "200", "", ""), ("listRuns", "401", "", "WWW-Authenticate")} <= seen
    said = "\n".join([check.first, *check.lines, (tmp_path / "err").read_text()])
    assert server.token not in said
    assert "s3cret" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_does_not_conform_is_told_as_it_comes_and_the_table_at_the_end(
    number: int, stand_in: StandIn, tmp_path: Path, environment: dict[str, str]
) -> None:
    file = tmp_path / "library.yaml"
    file.write_text(yaml.safe_dump(CONTENT))
    stand_in.headers = {"Content-Type": "application/json"}
    with checking(tmp_path, environment, "--upstream", stand_in.url, "--spec", str(file)) as (check, client):
        assert client.get("/v2/books?limit=1").json() == {}
    assert check.end(number) == 1
    told = "\n".join(check.lines)
    assert check.lines[0].startswith("finding: GET /v2/books 200 (listBooks): ")
    assert "not seen: library addBook 204" in told
    assert "1 exchanges" in check.lines[-1]


def test_a_program_gets_a_line_for_each_finding(stand_in: StandIn, tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "library.yaml"
    file.write_text(yaml.safe_dump(CONTENT))
    options = ("--upstream", stand_in.url, "--spec", str(file), "--strict-requests", "--json")
    stand_in.status = 418
    with checking(tmp_path, environment, *options) as (check, client):
        client.post("/books", json={})
    assert check.end() == 1
    findings = [json.loads(line)["finding"] for line in check.lines[:-1]]
    assert {finding["kind"] for finding in findings} == {"answer", "request"}
    assert check.value["findings"] == len(findings)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--upstream", "http://127.0.0.1:1"], 3),
        (["--upstream", "ftp://127.0.0.1"], 2),
        (["--upstream", "http://127.0.0.1:1", "--listen", "192.0.2.1:80"], 2),
        (["--upstream", "http://127.0.0.1:1", "--listen", "nowhere"], 2),
        (["--upstream", "http://127.0.0.1:1", "--cert", "x.pem"], 2),
        (["--upstream", "https://127.0.0.1:1", "--cert", "x.pem"], 1),
        (["--upstream", "http://127.0.0.1:1", "--spec", "x.yaml"], 1),
    ],
)
def test_what_cannot_be_done_ends_with_its_code(options: list[str], code: int, gatehouse: Command) -> None:
    done = gatehouse("check", "traffic", *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr


def test_an_address_that_is_taken_is_told(stand_in: StandIn, gatehouse: Command) -> None:
    taken = stand_in.url.removeprefix("http://")
    done = gatehouse("check", "traffic", "--upstream", stand_in.url, "--listen", taken)
    assert done.returncode == 1
    assert done.stderr == f"gatehouse: {taken}: Address already in use\n"


def test_a_file_that_is_no_document_is_refused(gatehouse: Command, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("openapi: 3.0.3")
    done = gatehouse("check", "traffic", "--upstream", "http://127.0.0.1:1", "--spec", "x.yaml")
    assert done.returncode == 1
    assert "no OpenAPI 3.1" in done.stderr
