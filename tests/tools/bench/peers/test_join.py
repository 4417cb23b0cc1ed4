import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.effort import in_ci_alone
from tests.support.programs import needs
from tests.tools.bench.join_inputs import INPUTS, KEYS, LIFE, RECORDED, UNKNOWN, Report, log
from tools.authority import key_to_pem, new_key
from tools.bench.join import Node, Reports, serving_all
from tools.bench.load import play
from tools.bench.servers import Server
from tools.state import StateFolder, signing_authority

pytestmark = in_ci_alone

NAMES = ["gatehouse", "fastapi", "limit"]


class Served(NamedTuple):
    """The servers by name, the jobs of the bench for them, and Gatehouse's folder, whose authority they all know."""

    servers: dict[str, Server]
    jobs: list[Reports]
    state: StateFolder

    @property
    def node(self) -> Node:
        """The node whose turn it is."""
        return self.jobs[0].node


@pytest.fixture(scope="module", params=["tls", "http"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Gatehouse and its peers; what they stand for is only worth comparing where they answer alike."""
    folder = tmp_path_factory.mktemp("bench") / "join"
    with serving_all(folder, tls=request.param == "tls") as (servers, jobs):
        yield Served({server.program.name: server for server in servers}, jobs, StateFolder(folder / "gatehouse"))


def send(served: Served, name: str, report: Report) -> tuple[int, str]:
    node = served.node
    return as_node(served.servers[name], node, report, node.client_cert, node.identity)


def as_node(
    server: Server, node: Node, report: Report, client_cert: str | None, identity: Path | None
) -> tuple[int, str]:
    """Send a report with a certificate, in the handshake or in a proxy's header."""
    if server.program.tls:
        return report.send(server, node, identity=identity)
    return report.send(server, node, identity=None, more=[("Client-Cert", client_cert)] if client_cert else [])


def with_another_key(served: Served, tmp_path: Path) -> tuple[str, Path]:
    """The Client-Cert and the file of a certificate for the node's join that has another key."""
    key = new_key()
    expires_at = int(time.time() + 3600) * 1000
    pem = signing_authority(served.state).issue(key.public_key(), served.node.join_id, expires_at)
    identity = tmp_path / "other.pem"
    identity.write_bytes(pem.encode() + key_to_pem(key))
    return f":{''.join(pem.splitlines()[1:-1])}:", identity


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", INPUTS)
def test_a_report_is_answered_alike(served: Served, name: str, what: str) -> None:
    report, expected = INPUTS[what]
    assert send(served, name, report) == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_node_without_its_certificate_is_unknown(served: Served, name: str, tmp_path: Path) -> None:
    server, node = served.servers[name], served.node
    assert as_node(server, node, log(), None, None) == UNKNOWN
    assert as_node(server, node, log(), *with_another_key(served, tmp_path)) == UNKNOWN


@pytest.mark.parametrize("name", NAMES)
def test_a_header_that_no_proxy_sends_makes_no_node(served: Served, name: str) -> None:
    server, node = served.servers[name], served.node
    good = node.client_cert
    if server.program.tls:
        assert log().send(server, node, identity=None, more=[("Client-Cert", good)]) == UNKNOWN
        return
    for forged in ([good, good], [good[1:-1]], [f"{good}, {good}"], [":%%:"], ["::"]):
        more = [("Client-Cert", value) for value in forged]
        assert log().send(server, node, identity=None, more=more) == UNKNOWN


@pytest.mark.parametrize("name", NAMES)
def test_the_newest_2000_lines_are_kept_in_their_order(served: Served, name: str) -> None:
    server = served.servers[name]
    for batch in range(5):
        events = [{"type": "log", "message": f"{batch * 500 + number}", "step": "services"} for number in range(500)]
        assert send(served, name, Report({"events": events})) == RECORDED
    assert [int(line[2]) for line in kept(server)[-2000:]] == list(range(500, 2500))


def kept(server: Server) -> list[tuple[int, str | None, str]]:
    """Time, step and message of the lines that a server has, in the way it has them."""
    with closing(sqlite3.connect(server.program.database)) as connection:
        if server.program.name == "fastapi":
            return list(connection.execute("SELECT at, step, message FROM log_lines ORDER BY seq"))
        rows = connection.execute("SELECT lines FROM join_lines ORDER BY last_seq")
        return [tuple(line) for (lines,) in rows for line in json.loads(lines)]


@needs("wrk")
@pytest.mark.parametrize("name", NAMES)
def test_the_load_is_answered_204_and_leaves_its_lines(served: Served, name: str) -> None:
    for job in served.jobs:
        outcome = play(job, served.servers[name], seconds=1, expected_rate=1)
        assert outcome.requests > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_key_stands_for_its_report_alike_until_sixteen_others_have_come(served: Served, name: str) -> None:
    before = last_seq(served.servers[name])
    assert [send(served, name, report) for report, _ in KEYS] == [expected for _, expected in KEYS]
    assert last_seq(served.servers[name]) == before + 1


def last_seq(server: Server) -> int:
    """How many lines a server has ever taken."""
    with closing(sqlite3.connect(server.program.database)) as connection:
        [(found,)] = connection.execute("SELECT last_seq FROM joins").fetchall()
        return int(found)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_goes_its_way_alike_and_a_failed_one_ends_the_join(served: Served, name: str) -> None:
    assert [send(served, name, report) for report, _ in LIFE] == [expected for _, expected in LIFE]
    with closing(sqlite3.connect(served.servers[name].program.database)) as connection:
        assert dict(connection.execute("SELECT step, status FROM join_steps")) == {
            "raft:control": "done",
            "services": "done",
            "complete": "failed",
        }
        assert connection.execute("SELECT state FROM joins").fetchall() == [("failed",)]
