from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import typer

from tools.clients import ClientsError, Fault, KitError
from tools.commands import clients
from tools.commands.clients import Client
from tools.commands.terminal import RefusedError


def pretend(monkeypatch: pytest.MonkeyPatch, faults: list[Fault], asked: list[object]) -> None:
    def make(spec: Path, target: Path, names: Sequence[str], tell: Callable[[str], None]) -> list[Fault]:
        asked.extend((spec, target, list(names)))
        tell("installing")
        return faults

    monkeypatch.setattr("tools.clients.make", make)


def test_all_clients_are_made_by_default_and_the_progress_is_no_part_of_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    pretend(monkeypatch, [], asked)
    clients.clients(target=Path("there"), spec=Path("spec"))
    assert asked == [Path("spec"), Path("there"), ["python", "openapi-fetch", "hey-api"]]
    assert capsys.readouterr() == ("there/ has clients for spec/: python, openapi-fetch, hey-api\n", "installing\n")


def test_what_is_wrong_with_a_client_is_told_and_ends_the_command_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [Fault("python", "join", "the client has no operation register"), Fault("hey-api", "", "no type")]
    for machine in (False, True):
        pretend(monkeypatch, faults, [])
        with pytest.raises(typer.Exit) as ended:
            clients.clients(target=Path("there"), only=[Client.PYTHON], machine=machine)
        assert ended.value.exit_code == 1
    *lines, value = capsys.readouterr().out.splitlines()
    assert lines == ["python, join: the client has no operation register", "hey-api: no type"]
    assert json.loads(value)["findings"] == [
        {"client": "python", "api": "join", "message": "the client has no operation register"},
        {"client": "hey-api", "api": None, "message": "no type"},
    ]


@pytest.mark.parametrize("error", [ClientsError("no document"), KitError("no npm")])
def test_what_keeps_clients_from_being_made_is_refused(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def make(*_: object) -> list[Fault]:
        raise error

    monkeypatch.setattr("tools.clients.make", make)
    with pytest.raises(RefusedError, match="no "):
        clients.clients()
