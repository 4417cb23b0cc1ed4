from __future__ import annotations

import asyncio

import psycopg

from tests.durability.conftest import on_postgresql
from tests.durability.ledger import Ledger, problems, statuses, verify
from tests.storage.postgresql import Server
from tests.support import forks, load, packages
from tests.support.deliveries import Delivery
from tests.support.effort import tries
from tests.support.gatehouse import Gatehouse, NewServer

EVENTS = tries(200, elsewhere=40)
# It calls what the demo calls: runs of both are bound alike.
NEW_PACKAGE = packages.workflow(deadline_seconds=3_600, version="2", connection="demo-receiver", path="/notices")


def second_on(url: str) -> dict[str, str]:
    """The environment of a server that shares a database with another."""
    return {"GATEHOUSE_DATABASE_URL": url, "GATEHOUSE_NODE": "second"}


def deliver_to_both(servers: list[Gatehouse], ledger: Ledger, deliveries: list[Delivery]) -> load.Outcomes:
    """Deliver the same events to both servers at once, and note what either acknowledged."""
    requests = {each.port: [load.signed(delivery, each.key) for delivery in deliveries] for each in servers}
    outcomes = asyncio.run(load.asend(requests, connections=16))
    for each in outcomes.values():
        ledger.note(deliveries, each)
    return [answer for each in outcomes.values() for answer in each]


def deliver_while_a_package_is_applied(servers: list[Gatehouse], ledger: Ledger) -> list[Delivery]:
    """Deliver new events to both servers before, while and after another process applies another package."""
    sent = load.deliveries(EVENTS)
    assert statuses(deliver_to_both(servers, ledger, sent)) == {204}
    folder = packages.write(servers[0].state.parent / "package", NEW_PACKAGE)
    command = ["workflows", "apply", str(folder), "--state", str(servers[0].state)]
    with folder.with_suffix(".log").open("w") as log:
        applying = forks.start(command, environment=servers[0].environment(), stderr=log)
    assert applying.stdout is not None
    seen = set()
    with applying.stdout:
        ended = False
        while not ended:
            ended = applying.poll() is not None
            more = load.deliveries(EVENTS)
            seen |= problems(deliver_to_both(servers, ledger, more))
            sent += more
    assert applying.wait() == 0, folder.with_suffix(".log").read_text()
    assert seen == {(409, "deployment.activation-changed", None)}
    return sent


def test_a_second_server_on_the_same_folder_is_refused(new_server: NewServer) -> None:
    with new_server() as first:
        second = first.run("serve", "--state", str(first.state))
        assert second.returncode == 1
        assert "another server serves the control listener" in second.stderr
        assert first.deliver().status == 204


def test_two_servers_on_one_sqlite_database_admit_each_event_once(new_server: NewServer) -> None:
    ledger, first = Ledger(), new_server()
    with first, new_server(environment=second_on(f"sqlite:///{first.state / 'gatehouse.db'}")) as second:
        sent = deliver_while_a_package_is_applied([first, second], ledger)
        for server in (first, second):
            ledger.redeliver(server, sent)
            verify(server)
        assert ledger.compare(first) == len(sent)


def test_two_servers_on_one_postgresql_database_admit_each_event_once(
    new_server: NewServer, postgresql: Server
) -> None:
    ledger, url = Ledger(), postgresql.create("shared")
    with on_postgresql(new_server, url) as first, new_server(environment=second_on(url)) as second:
        sent = deliver_while_a_package_is_applied([first, second], ledger)
        for server in (first, second):
            ledger.redeliver(server, sent)
            verify(server)
        with psycopg.connect(url) as connection:
            assert ledger.compare_rows(connection) == len(sent)
