from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tools.commands.changes import Changes
from tools.commands.terminal import CommandError, RefusedError, UnreachableError


def failing(error: CommandError) -> Callable[[], str]:
    def look() -> str:
        raise error

    return look


def overloaded() -> RefusedError:
    return RefusedError("service.unavailable (503): busy\n  more", {"status": 503})


def test_a_server_that_is_away_is_told_once_and_so_is_its_return(capsys: pytest.CaptureFixture[str]) -> None:
    changes = Changes(machine=False)
    assert changes.patiently(lambda: "there") == "there"
    assert changes.patiently(failing(UnreachableError("it does not \x1banswer"))) is None
    assert changes.patiently(failing(overloaded())) is None
    assert changes.patiently(lambda: "there") == "there"
    assert capsys.readouterr().out.splitlines() == [
        "it does not \ufffdanswer; trying again",
        "the connection is there again",
    ]


def test_a_machine_is_told_of_an_overload_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Changes(machine=True).patiently(failing(overloaded()))
    (told,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert told == {"event": "connection", "detail": "service.unavailable (503): busy"}


def test_any_other_refusal_is_the_caller_s() -> None:
    with pytest.raises(RefusedError):
        Changes(machine=False).patiently(failing(RefusedError("gone", {"status": 404})))


def test_a_value_is_new_until_it_is_noted() -> None:
    changes = Changes(machine=False)
    assert not changes.knows("a")
    assert [changes.new("a", value) for value in (1, 1, 2, 1)] == [True, False, True, True]
    assert changes.knows("a")
