from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.contract import places
from tests.support.gatehouse import Gatehouse
from tests.support.installs import CONFIG, CONFIG_PATH, EVENTS, INSTALL, JSON, Machine
from tests.support.wire import ConnectionEnded, Wire, message

AS_TEXT: Final = {"Content-Type": "text/plain"}
TOO_LONG: Final = b" " * (262_144 + 1)
REFUSED: Final = (401, "INSTALL_CODE_REFUSED")
LOCKED: Final = (429, "INSTALL_CODE_LOCKED")
NOT_FOUND: Final = (404, "NOT_FOUND")
NOT_ALLOWED: Final = (405, "METHOD_NOT_ALLOWED")
TOO_LARGE: Final = (413, "BODY_TOO_LARGE")
UNSUPPORTED: Final = (415, "UNSUPPORTED_MEDIA_TYPE")
INVALID: Final = (400, "INVALID_CONFIG")
RUNNING: Final = (409, "INSTALL_RUNNING")
GOOD: Final = json.dumps(CONFIG).encode()

# What is wrong with these is told to those alone who have the code.
UNTOLD: Final = [
    ("GET", "/"),
    ("GET", "/v1/installer/unknown"),
    ("GET", f"{INSTALL}/"),
    ("GET", "/V1/installer/install"),
    ("GET", "/v1/runs"),
    ("GET", "/v1/join/registrations"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/openapi/coordinator.json"),
    ("DELETE", INSTALL),
    ("OPTIONS", INSTALL),
    ("POST", EVENTS),
    ("PATCH", CONFIG_PATH),
    ("GET", f"{EVENTS}?after=-1"),
    ("PUT", CONFIG_PATH),
    ("POST", INSTALL),
]


@pytest.fixture(scope="module")
def running(machine: Machine) -> Iterator[Machine]:
    """The machine while an attempt runs."""
    with machine.writing():
        yield machine


@pytest.fixture(scope="module")
def founder_machine(founder: Gatehouse) -> Machine:
    """A machine that has no config."""
    return Machine(founder)


@pytest.mark.parametrize(("method", "target"), UNTOLD)
def test_nothing_is_told_to_those_without_the_code(founder_machine: Machine, method: str, target: str) -> None:
    answer = founder_machine.ask(method, target)
    assert answer.outcome == REFUSED
    assert answer.header("WWW-Authenticate") == 'Bearer realm="installer"'
    assert answer.header("Allow") is None


def test_the_lock_is_looked_at_before_all_else(founder_machine: Machine) -> None:
    founder_machine.lock("127.0.0.98")
    for method, target in UNTOLD:
        # Where the lock has passed it is one of twice the time that follows.
        answer = founder_machine.ask(method, target, source="127.0.0.98")
        if answer.outcome == REFUSED:
            founder_machine.lock("127.0.0.98")
            answer = founder_machine.ask(method, target, source="127.0.0.98")
        assert answer.outcome == LOCKED, target


def test_with_the_code_unknown_paths_and_methods_are_told(founder_machine: Machine) -> None:
    for _, target in UNTOLD[:9]:
        assert founder_machine.operate("GET", target).outcome == NOT_FOUND, target
    for path, allowed in ((CONFIG_PATH, "GET, HEAD, PUT"), (INSTALL, "GET, HEAD, POST"), (EVENTS, "GET, HEAD")):
        for method in ("DELETE", "PATCH", "OPTIONS", "TRACE"):
            answer = founder_machine.operate(method, path)
            assert (answer.outcome, answer.header("Allow")) == (NOT_ALLOWED, allowed), path


def test_the_code_is_looked_at_before_the_body_has_come(founder_machine: Machine) -> None:
    with founder_machine.connect() as wire:
        wire.write(message("PUT", CONFIG_PATH, AS_TEXT | {"Content-Length": str(len(TOO_LONG))}))
        assert wire.read().outcome == REFUSED
    assert founder_machine.ask("PUT", CONFIG_PATH, AS_TEXT, TOO_LONG).outcome == REFUSED


def test_the_method_is_looked_at_before_the_parameters_and_the_body(founder_machine: Machine) -> None:
    assert founder_machine.operate("POST", f"{EVENTS}?after=-1").outcome == NOT_ALLOWED
    assert founder_machine.operate("PATCH", CONFIG_PATH, AS_TEXT, TOO_LONG).outcome == NOT_ALLOWED


def test_a_config_is_looked_at_in_the_order_of_its_answers(running: Machine) -> None:
    assert running.operate("PUT", CONFIG_PATH, AS_TEXT, TOO_LONG).outcome == TOO_LARGE
    assert running.operate("PUT", CONFIG_PATH, AS_TEXT, b"{").outcome == UNSUPPORTED
    assert running.operate("PUT", CONFIG_PATH, JSON, b"{").outcome == INVALID
    assert running.operate("PUT", CONFIG_PATH, JSON, b"{}").outcome == INVALID
    assert running.configure(CONFIG | {"disks": [{"device": "/dev/sda", "confirm": "/dev/sdb"}]}).outcome == INVALID
    assert running.configure().outcome == RUNNING
    assert running.operate("POST", INSTALL).outcome == RUNNING
    assert running.operate("GET", CONFIG_PATH).json == CONFIG


@pytest.mark.parametrize("media_type", ["Application/JSON", "application/json;charset=UTF-8", "APPLICATION/yaml ; a=b"])
def test_a_media_type_is_compared_without_regard_to_case_and_parameters(running: Machine, media_type: str) -> None:
    kind = {"Content-Type": media_type}
    assert running.operate("PUT", CONFIG_PATH, kind, b"{}").outcome == INVALID
    assert running.operate("PUT", CONFIG_PATH, kind, GOOD).outcome == RUNNING


@pytest.mark.parametrize("media_type", ["", "text/yaml", "application/jsonx", "text/plain; a=application/json", "*/*"])
def test_another_media_type_is_refused(running: Machine, media_type: str) -> None:
    assert running.operate("PUT", CONFIG_PATH, {"Content-Type": media_type}, GOOD).outcome == UNSUPPORTED
    encoded = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert running.operate("PUT", CONFIG_PATH, encoded, GOOD).outcome == UNSUPPORTED


def test_a_body_in_chunks_is_the_body_that_they_make(running: Machine) -> None:
    for chunks in ([GOOD], [GOOD[:5], GOOD[5:]], [bytes([one]) for one in GOOD]):
        assert running.operate("PUT", CONFIG_PATH, JSON, chunks=chunks).outcome == RUNNING
    assert running.operate("PUT", CONFIG_PATH, JSON, chunks=[TOO_LONG[:9], TOO_LONG[9:]]).outcome == TOO_LARGE


def test_head_is_get_without_a_body(machine: Machine, founder_machine: Machine) -> None:
    for path in (CONFIG_PATH, INSTALL):
        head, get = machine.operate("HEAD", path), machine.operate("GET", path)
        assert (head.status, head.body) == (200, b"")
        assert head.header("Content-Type") == get.header("Content-Type") == "application/json"
        assert head.header("Content-Length") == str(len(get.body))
    assert founder_machine.operate("HEAD", CONFIG_PATH).status == 404
    assert founder_machine.ask("HEAD", CONFIG_PATH).status == 401


def test_a_malformed_request_is_refused_in_the_shape_of_the_installer(founder_machine: Machine) -> None:
    for request in (
        b"GET /v1/installer/install HTTP/1.1\r\n\r\n",
        message("GET", "http://127.0.0.1/v1/installer/install", founder_machine.operator),
    ):
        with founder_machine.connect() as wire:
            wire.write(request)
            assert wire.read().outcome == (400, "INVALID_REQUEST")


def test_a_connection_without_tls_gets_no_answer(founder_machine: Machine) -> None:
    with Wire(founder_machine.server.installer_port) as wire:
        wire.write(message("GET", INSTALL, founder_machine.operator))
        with pytest.raises((ConnectionEnded, ConnectionError)):
            wire.read()


def test_every_operation_is_on_its_listener_alone(founder_machine: Machine) -> None:
    server = founder_machine.server
    for path, method, *_ in places("installer").values():
        for fields in (server.operator, founder_machine.operator):
            assert server.send(method, path, fields).outcome == (404, "request.not-found"), path
            assert server.send_join(method, path, fields).outcome == NOT_FOUND, path
    assert server.send("GET", "/openapi/installer.json").status == 200
    for token in (server.token, "no code"):
        refused = founder_machine.ask("GET", INSTALL, {"Authorization": f"Bearer {token}"}, source="127.0.0.97")
        assert refused.outcome == REFUSED
