from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import forks
from tests.support.forks import Process
from tests.support.gatehouse import PATIENCE_SECONDS, Gatehouse, NewServer, wait_for
from tests.tools.commands.conftest import GATEHOUSE, Command

OPTIONS = ["demo", "receiver", "--bind", "127.0.0.1:0"]


def started(environment: dict[str, str], log: Path, *options: str) -> Process:
    with log.open("a") as stderr:
        return forks.start([*OPTIONS, *options], environment=environment, stderr=stderr)


@pytest.fixture
def receiver(environment: dict[str, str], tmp_path: Path) -> Iterator[Process]:
    process = started(environment, tmp_path / "log", "--json")
    yield process
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE_SECONDS)
    assert process.stdout is not None
    process.stdout.close()


def test_a_receiver_tells_each_notice_in_a_line_until_it_is_stopped(receiver: Process) -> None:
    assert receiver.stdout is not None
    url = json.loads(receiver.stdout.readline())["receiver"]
    answer = httpx.post(f"{url}/notices", json={"caseId": "C-1"}, headers={"Idempotency-Key": "run.notify"})
    assert answer.status_code == 201
    told = json.loads(receiver.stdout.readline())
    assert (told["body"], told["idempotencyKey"], told["status"]) == ({"caseId": "C-1"}, "run.notify", 201)
    assert httpx.get(f"{url}/receipts/run.notify").json() == answer.json()
    receiver.send_signal(signal.SIGTERM)
    assert receiver.wait(PATIENCE_SECONDS) == 0


def test_a_person_reads_each_notice_and_nothing_that_a_terminal_obeys(
    environment: dict[str, str], tmp_path: Path
) -> None:
    process = started(environment, tmp_path / "log")
    assert process.stdout is not None
    with process.stdout:
        url = process.stdout.readline().split()[-1]
        httpx.post(f"{url}/notices", json={"caseId": "\u009b31m"}, headers={"Idempotency-Key": "k"})
        line = process.stdout.readline()
        httpx.post(f"{url}/notices", json={"caseId": "\u009b31m"}, headers={"Idempotency-Key": "k"})
        again = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert line == 'demo receiver   POST /notices key k {"caseId": "\\u009b31m"} -> 201\n'
    assert again == line.replace("201\n", "201, delivery 2\n")


def test_an_address_that_is_taken_is_told(gatehouse: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        done = gatehouse("demo", "receiver", "--bind", bind)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"gatehouse: the receiver cannot have {bind}: Address already in use\n"


@pytest.mark.parametrize("bind", ["0.0.0.0:8099", "10.0.0.7:8099", "8099", "127.0.0.1:65536"])
def test_a_receiver_is_for_the_machine_itself(gatehouse: Command, bind: str) -> None:
    done = gatehouse("demo", "receiver", "--bind", bind)
    assert (done.returncode, done.stdout) == (2, "")
    assert "must be" in done.stderr


def test_a_receiver_ends_with_its_standard_input_where_that_is_asked(environment: dict[str, str]) -> None:
    command = [GATEHOUSE, *OPTIONS, "--while-stdin"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline()
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/notices").status_code == 200
    except httpx.TransportError:
        return False


def with_receiver(new_server: NewServer, port: int) -> Gatehouse:
    server = new_server(arguments=["--listener", "control", "--demo-receiver"])
    connection = {"baseUrl": f"http://127.0.0.1:{port}", "methods": ["POST"], "paths": ["/notices"]}
    server.configure(connections={"demo-receiver": connection})
    return server


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_receiver_beside_a_server_ends_with_it(new_server: NewServer, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = with_receiver(new_server, port)
    server.start()
    url = f"http://127.0.0.1:{port}"
    wait_for(lambda: answers(url))
    server.stop(number)
    wait_for(lambda: not answers(url))


def test_a_server_starts_without_its_receiver_where_the_address_is_taken_and_says_so(new_server: NewServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = with_receiver(new_server, port)
        server.start()
        told = f"gatehouse: the receiver cannot have 127.0.0.1:{port}: Address already in use\n"
        wait_for(lambda: told in server.log)
        assert httpx.get(f"{server.control}/health").status_code == 200
        assert server.stop() == 0


def test_a_server_whose_settings_have_no_receiver_says_so(new_server: NewServer) -> None:
    server = with_receiver(new_server, 1)
    server.configure(connections={"demo-receiver": {"baseUrl": "https://notices.example"}})
    server.start()
    assert server.stop() == 0
    assert "no demo receiver: no connection demo-receiver leads to this machine" in server.log
