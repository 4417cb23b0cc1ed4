from __future__ import annotations

import json

import pytest
from rich.console import Console

from tools.commands.terminal import CommandError, RefusedError, UnreachableError, complain, emit, plain


def test_a_machine_gets_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    emit(True, {"name": "é\nx"}, lambda _: pytest.fail("no person asked"))
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"name": "é\nx"}


def test_a_person_gets_long_lines_whole_and_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    line = "/a/very/long/path" * 20 + " [bold] :smile:"
    emit(False, None, lambda console: console.print(line))
    assert capsys.readouterr().out == f"{line}\n"


def test_what_a_terminal_would_obey_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert plain("a\x1b[31mb\rc\nd") == "a\ufffd[31mb\ufffdc\nd"
    complain(RefusedError("\x1b]0;title\x07"))
    assert "\x1b" not in capsys.readouterr().err


def test_a_machines_json_has_nothing_that_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"message": "\x1b[31m \x7f \x9b31m \u202e \u2028 \ud800 \U000e0041 é \U0001f600\n"}
    emit(True, value, lambda _: pytest.fail("no person asked"))
    out = capsys.readouterr().out
    assert out.removesuffix("\n").isprintable()
    assert "é \U0001f600" in out
    assert json.loads(out) == value


@pytest.mark.parametrize(
    ("fault", "code", "kind"), [(RefusedError("why"), 1, "refused"), (UnreachableError("why"), 3, "unreachable")]
)
def test_a_fault_has_its_exit_code_and_its_json(fault: CommandError, code: int, kind: str) -> None:
    assert (fault.exit_code, fault.body) == (code, {"error": kind, "detail": "why"})


def test_a_table_keeps_its_ids_whole_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    widths: list[int] = []

    def show(console: Console) -> None:
        widths.append(console.width)

    emit(False, None, show)
    capsys.readouterr()
    assert widths[0] >= 100
