from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support import wire
from tests.support.deliveries import PATH, Delivery
from tests.support.gatehouse import COMMAND, Gatehouse, NewServer, wait_for
from tests.support.nodes import REGISTRATIONS, Node, client_cert
from tests.support.wire import Answer, Wire


def ask_installer(server: Gatehouse, target: str, code: str | None) -> Answer:
    fields = {} if code is None else {"Authorization": code}
    return wire.send(server.installer_port, wire.message("GET", target, fields), server.wrap())


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


def test_the_installer_listener_has_its_own_document_and_no_other_open_to_all(server: Gatehouse) -> None:
    document = server.send("GET", "/openapi/installer.json").body
    assert ask_installer(server, "/openapi/installer.json", None).body == document
    assert ask_installer(server, "/docs", None).status == 200
    start = ask_installer(server, "/docs/start.js", None).body
    assert b"openapi/installer.json" in start
    assert b"coordinator" not in start
    for path in ("/openapi/coordinator.json", "/metrics", "/health", "/v1/runs", REGISTRATIONS):
        assert ask_installer(server, path, None).outcome == (401, "INSTALL_CODE_REFUSED")
        assert ask_installer(server, path, server.code).outcome == (404, "NOT_FOUND")


def test_the_installer_is_on_its_own_listener_alone(server: Gatehouse) -> None:
    path = "/v1/installer/install"
    assert ask_installer(server, path, server.code.lower()).json["state"] == "idle"
    assert server.send("GET", path, {"Authorization": server.code}).status == 404
    assert server.send_join("GET", path, {"Authorization": server.code}).status == 404
    assert ask_installer(server, path, f"Bearer {server.token}").outcome == (401, "INSTALL_CODE_REFUSED")


def test_an_installer_without_its_code_is_refused_by_the_file_s_name(new_server: NewServer) -> None:
    server = new_server()
    (server.state / "install.code").unlink()
    done = server.run("serve", "--state", str(server.state), "--listener", "installer")
    assert done.returncode == 1
    assert f"{server.state}/install.code: No such file or directory" in done.stderr


def test_the_join_listener_has_its_own_document_and_no_other(server: Gatehouse) -> None:
    assert server.send("GET", "/openapi/join.json").body == server.send_join("GET", "/openapi/join.json").body
    assert server.send_join("GET", "/docs").status == 200
    start = server.send_join("GET", "/docs/start.js").body
    assert b"openapi/join.json" in start
    assert b"coordinator" not in start
    for path in ("/openapi/coordinator.json", "/metrics", "/health", "/v1/runs"):
        assert server.send_join("GET", path).outcome == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "control", "join"),
    [
        ("PUT", REGISTRATIONS, "GET, HEAD", "POST"),
        ("PUT", f"{REGISTRATIONS}/a", "GET, HEAD", "GET, HEAD"),
        ("GET", "/v1/join/tokens", "POST", None),
        ("PUT", f"{REGISTRATIONS}/a/log", "GET, HEAD", None),
        ("GET", f"{REGISTRATIONS}/a/events", None, "POST"),
        ("GET", f"{REGISTRATIONS}/a/certificate", None, "POST"),
        ("POST", "/docs", "GET, HEAD", "GET, HEAD"),
    ],
)
def test_a_path_has_the_methods_that_its_listener_carries(
    server: Gatehouse, method: str, path: str, control: str | None, join: str | None
) -> None:
    for answer, allow in [(server.send(method, path), control), (server.send_join(method, path), join)]:
        assert (answer.status, answer.header("Allow")) == (405 if allow else 404, allow)


def test_each_listener_is_a_realm(server: Gatehouse) -> None:
    assert server.send("GET", REGISTRATIONS).header("WWW-Authenticate") == 'Bearer realm="gatehouse"'
    stranger = server.send_join("POST", REGISTRATIONS, server.operator, b"")
    assert (stranger.status, stranger.header("WWW-Authenticate")) == (401, 'Bearer realm="join"')


def test_nobody_speaks_for_a_connection_by_a_header(new_server: NewServer) -> None:
    server = new_server()
    server.configure(join={"tls": False, "trustedProxies": ["10.0.0.7"]})
    with server:
        assert server.join.startswith("http://")
        node = Node.registered(server)
        forged = client_cert(node.certificate) | {"X-Forwarded-For": "10.0.0.7", "X-Forwarded-Proto": "https"}
        with Wire(server.join_port) as connection:
            # The PROXY protocol is not spoken either.
            connection.write(b"PROXY TCP4 10.0.0.7 127.0.0.1 1 2\r\n" + wire.message("GET", node.path, forged))
            assert connection.read().status == 400
        assert node.send("GET", node.path, forged | {"Forwarded": "for=10.0.0.7"}).outcome == (404, "NOT_FOUND")
        assert server.state_of(node.join_id) == "pending"


def test_two_processes_serve_a_listener_each_and_turns_are_kept_by_the_one_with_join(new_server: NewServer) -> None:
    joining = new_server(arguments=["--listener", "join"])
    operating = Gatehouse(joining.state, arguments=["--listener", "control"])
    with joining, operating:
        assert (joining.control, operating.join) == ("", "")
        operating.join = joining.join
        node = Node.in_turn(operating)
        node.finish()
        assert joining.stop() == 0
        assert operating.state_of(node.join_id) == "joined"


def test_a_file_that_the_settings_name_is_told_with_its_raft_before_anything_is_served(new_server: NewServer) -> None:
    server = new_server()
    server.configure(rafts=[{"name": "store", "kind": "etcd", "endpoints": ["https://x"], "caFile": "etcd.pem"}])
    done = server.run("serve", "--state", str(server.state))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"rafts: store: {server.state}/etcd.pem: No such file or directory" in done.stderr


def test_the_authority_of_a_connection_is_read_before_anything_is_served(new_server: NewServer) -> None:
    server = new_server()
    server.configure(connections={"crm": {"baseUrl": "https://crm.example", "caFile": "crm.pem"}})
    done = server.run("serve", "--state", str(server.state))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"connections: crm: {server.state}/crm.pem: No such file or directory" in done.stderr
