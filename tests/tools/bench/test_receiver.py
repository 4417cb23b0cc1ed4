import http.client
import socket
from collections.abc import Iterator

import pytest

from tools.bench.execution import receiver
from tools.bench.servers import HOST, Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(receiver(tmp_path_factory.mktemp("receiver"))) as server:
        yield server


def test_every_request_of_a_connection_is_answered_with_json(server: Server) -> None:
    connection = http.client.HTTPConnection(HOST, server.program.port, timeout=30)
    for body in (b"", b'{"caseId":"c"}', b"x" * 100_000):
        connection.request("POST", "/told", body)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"received":true}')
    connection.close()


def test_what_is_no_http_ends_its_connection(server: Server) -> None:
    with socket.create_connection((HOST, server.program.port), timeout=30) as connection:
        connection.sendall(b"\x00\x01\r\n\r\n")
        assert connection.recv(100) == b""
