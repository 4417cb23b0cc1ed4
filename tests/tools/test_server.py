from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support import wire
from tests.support.deliveries import PATH, Delivery
from tests.support.gatehouse import COMMAND, Gatehouse, wait_for
from tests.support.wire import Wire


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_stop_ends_well_with_everything_written(
    number: signal.Signals, own_server: Gatehouse
) -> None:
    run = own_server.deliver().run
    assert own_server.stop(number) == 0
    assert own_server.rows()["runs"] == 1
    assert run in (own_server.state / "audit.jsonl").read_text()
    requests = [line for line in map(json.loads, own_server.log.splitlines()) if line["event"] == "request"]
    assert [(line["operation"], line["status"]) for line in requests] == [("coordinator.admitEvent", 204)]


def test_a_request_that_waits_for_its_commit_is_answered_before_the_end(own_server: Gatehouse) -> None:
    delivery = Delivery()
    with own_server.database() as another, Wire(own_server.port) as connection:
        another.execute("BEGIN IMMEDIATE")
        connection.write(wire.message("POST", PATH, delivery.headers(own_server.key), delivery.body))
        # A second connection is served, so the first request has been read.
        assert own_server.send("GET", "/health").status == 200
        own_server.ask_to_stop()
        another.rollback()
        assert connection.read().status == 204


@pytest.mark.parametrize("redirection", ["2>&-", "2<>log.fifo"])
def test_a_log_that_nobody_takes_holds_up_nothing(redirection: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.fifo")
    command = ("sh", "-c", f'cd "{tmp_path}" && exec "$@" {redirection}', "sh", COMMAND)
    with Gatehouse(tmp_path / "state", command=command) as server:
        with Wire(server.port) as connection:
            # More lines than a pipe takes.
            connection.write(wire.message("GET", "/health") * 1_500)
            assert {connection.read().status for _ in range(1_500)} == {200}
        assert server.deliver().status == 204
        assert server.stop() == 0


def test_metrics_tell_requests_by_operation_and_the_sizes_of_commits(own_server: Gatehouse) -> None:
    assert own_server.deliver().status == 204
    assert own_server.deliver(key=bytes(32)).status == 401

    def text() -> str:
        return own_server.send("GET", "/metrics").body.decode()

    def told() -> bool:
        return 'gatehouse_requests_total{operation="coordinator.admitEvent",status="401"} 1.0' in text()

    assert wait_for(told)
    assert 'gatehouse_requests_total{operation="coordinator.admitEvent",status="204"} 1.0' in text()
    assert 'gatehouse_request_seconds_count{operation="coordinator.admitEvent",status="204"} 1.0' in text()
    assert "gatehouse_commit_batch_items_count 1.0" in text()


def test_the_control_listener_has_the_documents_and_a_page_that_shows_them(server: Gatehouse) -> None:
    assert server.send("GET", "/openapi/coordinator.json").json["openapi"].startswith("3.1.")
    assert b"swagger-ui" in server.send("GET", "/docs").body
    assert b"openapi/coordinator.json" in server.send("GET", "/docs/start.js").body
