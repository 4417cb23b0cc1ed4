from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

from tools.watcher import view
from tools.watcher.answers import Install, InstallEvent, Step
from tools.watcher.view import Events, Lines, Picture, View

STEPS = [Step("one", "waiting"), Step("two", "waiting")]
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def tell(seen: View) -> None:
    for event in (
        InstallEvent(1, 1, "step", "one", "started"),
        InstallEvent(2, 1, "log", "one", line="a\tb\x1b[2J\r"),
        InstallEvent(3, 1, "log", "one", line="\none: succeeded"),
        InstallEvent(4, 1, "step", "one", "succeeded"),
        InstallEvent(5, 1, "step", "two", "started"),
        InstallEvent(6, 1, "step", "two", "failed", detail="no\nroom"),
        InstallEvent(7, 1, "verdict", outcome="failed", detail="two failed"),
    ):
        seen.event(event, "{}")


def test_a_file_gets_one_line_an_event_without_what_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Lines()
    tell(seen)
    seen.end(1, "failed", None)
    assert capsys.readouterr().out.splitlines() == [
        "one: started",
        "  one | a       b\ufffd[2J",
        "  one | \ufffdone: succeeded",
        "one: succeeded",
        "two: started",
        "two: failed (no\ufffdroom)",
        "attempt 1: failed (two failed)",
        "attempt 1: failed",
    ]


def test_a_machine_gets_each_event_as_it_was_sent_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Events()
    data = '{"id": 1, "attempt": 1, "type": "log", "line": "é\\u0085\\u2028\\u001b", "new": {"a": null}}'
    seen.install(Install(1, "running", STEPS, None, 0))
    seen.event(InstallEvent(1, 1, "log"), data)
    seen.end(1, "failed", None)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.isprintable()
    assert json.loads(line) == json.loads(data)


@pytest.mark.parametrize("seen", [Events(), Lines()], ids=["events", "lines"])
def test_trouble_is_told_apart_when_it_comes_and_when_it_goes(seen: View, capsys: pytest.CaptureFixture[str]) -> None:
    for detail in (None, "no \x1banswer", "no answer either", None, None):
        seen.trouble(detail)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "gatehouse: no \ufffdanswer; trying again",
        "gatehouse: the connection is there again",
    ]


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=60, height=20, color_system=None, _environ={})


def written(console: Console) -> list[str]:
    """All that was ever written; a picture that was drawn again is there again."""
    assert isinstance(console.file, io.StringIO)
    return [_CODES.sub("", line).strip("\r") for line in console.file.getvalue().splitlines()]


def drawn(picture: Picture) -> list[str]:
    """The picture as it is now."""
    console = terminal()
    console.print(picture._drawn())
    return [line.rstrip() for line in written(console)]


def test_a_terminal_shows_what_has_ended_the_newest_lines_and_a_bar_of_the_steps() -> None:
    console = terminal()
    with Picture(console) as picture:
        picture.install(Install(1, "running", STEPS, None, 0))
        tell(picture)
        *lines, bar = drawn(picture)
    assert lines == ["  one | a       b\ufffd[2J", "  one | \ufffdone: succeeded"]
    assert re.fullmatch(r"attempt 1: two ━+.* 1/2 0:00:00", bar)
    told = [line for line in written(console) if re.match(r"(one|two|attempt 1): \w+( \(.*\))?$", line)]
    assert told == ["one: succeeded", "two: failed (no\ufffdroom)", "attempt 1: failed (two failed)"]
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().endswith("\x1b[?25h"), "the cursor is still hidden"


def test_a_picture_has_room_for_the_newest_lines_alone_and_none_is_wider_than_the_terminal() -> None:
    with Picture(terminal()) as picture:
        for number in range(500):
            picture.event(InstallEvent(number + 1, 1, "log", "one", line=f"line {number} " + "x" * 5000), "{}")
        *lines, _ = drawn(picture)
    assert [line.split()[3] for line in lines] == [str(number) for number in range(490, 500)]
    assert {len(line) for line in lines} == {60}


def test_a_picture_goes_on_to_the_next_attempt_and_counts_the_steps_of_the_newest() -> None:
    with Picture(terminal()) as picture:
        picture.install(Install(2, "running", STEPS, None, 9))
        assert re.fullmatch(r"attempt 2 .* 0/2 0:00:00", drawn(picture)[-1])
        tell(picture)
        assert re.fullmatch(r"attempt 1: two .* 0/\? 0:00:00", drawn(picture)[-1])
        picture.event(InstallEvent(8, 2, "step", "one", "started"), "{}")
        picture.event(InstallEvent(9, 2, "step", "one", "succeeded"), "{}")
        (bar,) = drawn(picture)
    assert re.fullmatch(r"attempt 2: one ━+.* 1/2 0:00:00", bar)


def test_a_picture_shows_trouble_as_long_as_it_lasts() -> None:
    with Picture(terminal()) as picture:
        picture.trouble("no \x1banswer")
        assert drawn(picture)[-1] == "no \ufffdanswer; trying again"
        picture.trouble(None)
        (bar,) = drawn(picture)
    assert bar.startswith("no install yet")


def test_an_install_that_succeeded_already_is_told_in_the_picture() -> None:
    console = terminal()
    with Picture(console) as picture:
        picture.install(Install(3, "succeeded", STEPS, None, 9))
        picture.end(3, "succeeded", None)
    assert "attempt 3: succeeded" in written(console)


def test_each_output_has_its_view(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(machine: bool) -> type[View]:
        with view.opened(machine) as seen:
            return type(seen)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert opened(machine=True) is Events
    assert opened(machine=False) is Lines
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert opened(machine=False) is Picture
    monkeypatch.setenv("TERM", "dumb")
    assert opened(machine=False) is Lines
