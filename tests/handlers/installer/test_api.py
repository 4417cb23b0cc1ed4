from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from generated.installer.operations import OPERATIONS
from generated.installer.security import Authenticators
from handlers.gateway.faults import Fault
from handlers.installer.api import FAULTS, installer_api, installer_document
from storage.database import Storage
from storage.errors import AuditUnavailable, Overloaded, Unavailable
from storage.installer.lock import AddressRecord
from tests.handlers.installer.machine import CODE, CONFIG, CONFIG_PATH, EVENTS, INSTALL, Machine, outcome
from tests.support.contract import document, places

AUTHORED = Path(__file__).parents[3] / "generated/installer/contract.json"

REFUSED = (401, "INSTALL_CODE_REFUSED")
TARGETS = [
    ("GET", CONFIG_PATH),
    ("PUT", CONFIG_PATH),
    ("POST", INSTALL),
    ("GET", f"{EVENTS}?after=x"),
    ("PATCH", INSTALL),
    ("GET", "/v1/installer/nothing"),
    ("GET", "/elsewhere"),
]


def test_the_document_is_served_as_it_was_authored() -> None:
    assert installer_document() == AUTHORED.read_bytes()


def test_each_fault_of_the_gateway_has_a_code_of_the_document() -> None:
    assert FAULTS.keys() == set(Fault)
    assert {code for codes in FAULTS.values() for code in codes} <= document("installer")["x-problems"].keys()


def test_each_security_scheme_has_an_authenticator() -> None:
    schemes = {scheme.field for operation in OPERATIONS for scheme in operation.schemes}
    assert schemes == set(Authenticators.__dataclass_fields__)
    assert len(schemes) == len(document("installer")["components"]["securitySchemes"])


@pytest.mark.anyio
async def test_there_is_no_installer_without_a_code(machine: Machine) -> None:
    with pytest.raises(ValueError, match="empty"):
        installer_api(machine.app, "\n")


@pytest.mark.anyio
async def test_every_operation_is_there(machine: Machine) -> None:
    for place in places("installer").values():
        assert place.content["x-listeners"] == ["installer"]
        assert outcome(await machine.ask("PATCH", place.path)) == (405, "METHOD_NOT_ALLOWED")


@pytest.mark.anyio
async def test_the_code_comes_before_everything_else(machine: Machine) -> None:
    for method, target in TARGETS:
        answer = await machine.ask(method, target, code=None)
        assert outcome(answer) == REFUSED
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="installer"'
        assert answer.json()["type"] == "urn:gatehouse:problem:installer:install-code-refused"
    assert outcome(await machine.ask("GET", INSTALL, code="caf\u00e9")) == REFUSED


@pytest.mark.anyio
async def test_the_lock_comes_before_the_code(machine: Machine, storage: Storage) -> None:
    now = int(time.time() * 1000)
    await storage.installer.lock.save([AddressRecord("127.0.0.1", 11, now + 64_000, now, now)])
    for (method, target), code in itertools.product(TARGETS, (CODE, None, "wrong")):
        locked = await machine.ask(method, target, code=code)
        assert outcome(locked) == (429, "INSTALL_CODE_LOCKED")
        assert 1 <= int(locked.headers["Retry-After"]) <= 64


@pytest.mark.anyio
async def test_each_request_gives_the_code_once(machine: Machine) -> None:
    for method, target in [("GET", INSTALL), ("PATCH", INSTALL), ("GET", "/elsewhere"), ("PUT", CONFIG_PATH)]:
        assert outcome(await machine.ask(method, target, code="wrong")) == REFUSED
    assert outcome(await machine.ask("GET", INSTALL)) == (200, "")


@pytest.mark.anyio
async def test_a_fault_of_storage_is_one_of_the_server(
    machine: Machine, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = itertools.cycle([Unavailable, Overloaded, AuditUnavailable])

    async def fail(*_: object) -> None:
        raise next(errors)("for a test")

    assert (await machine.ask("GET", INSTALL)).status_code == 200
    for part, name in [
        (storage.installer.config, "get"),
        (storage.installer.config, "put"),
        (storage.installer.attempts, "latest"),
        (storage.installer.attempts, "start"),
    ]:
        monkeypatch.setattr(part, name, fail)
    for method, target in [("GET", CONFIG_PATH), ("POST", INSTALL), ("GET", INSTALL)]:
        answer = await machine.ask(method, target)
        assert outcome(answer) == (500, "INTERNAL")
        assert "Retry-After" not in answer.headers
    assert outcome(await machine.put(CONFIG)) == (500, "INTERNAL")
    monkeypatch.setattr(storage.installer.lock, "save", fail)
    for target in (INSTALL, "/elsewhere"):
        assert outcome(await machine.ask("GET", target, code="wrong")) == (500, "INTERNAL")
