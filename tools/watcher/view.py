"""What a person or a machine sees of an install that is followed."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol, Self

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from tools.commands.terminal import machine_text, plain
from tools.watcher.answers import Install, InstallEvent

NEWEST_LINES: Final = 10
# No terminal is as wide; a line may have 64 KiB.
_WIDEST: Final = 1000
_DRAWN_A_SECOND: Final = 8


class View(Protocol):
    """What a follower tells."""

    def install(self, install: Install) -> None:
        """Tell of the latest attempt as it is now."""

    def event(self, event: InstallEvent, data: str) -> None:
        """Tell an event; `data` is its JSON as it was sent."""

    def end(self, attempt: int, outcome: str, detail: str | None) -> None:
        """Tell how the latest attempt has ended, whose verdict was told before."""

    def trouble(self, detail: str | None) -> None:
        """Tell that there is no connection at present, and why, and, by None, that there is one again."""


@contextlib.contextmanager
def opened(machine: bool) -> Iterator[View]:
    """Give the view that standard output is for: events as JSON, a picture in a terminal, or lines of text."""
    console = Console(highlight=False, markup=False, emoji=False)
    if machine:
        yield Events()
    elif console.is_terminal and not console.is_dumb_terminal:
        with Picture(console) as picture:
            yield picture
    else:
        yield Lines()


class _Trouble:
    """Tells on standard error, once each, that the connection is lost and that it is there again."""

    def __init__(self) -> None:
        self._lost = False

    def trouble(self, detail: str | None) -> None:
        """Tell it where it is new."""
        if self._lost != (detail is not None):
            self._lost = not self._lost
            text = f"{plain(detail)}; trying again" if detail else "the connection is there again"
            typer.echo(f"gatehouse: {text}", err=True)


class Events(_Trouble):
    """For machines: each event as one JSON object a line, and nothing else."""

    def install(self, install: Install) -> None:
        """Leave it to the events."""

    def event(self, event: InstallEvent, data: str) -> None:  # noqa: ARG002 - a machine gets all that was sent
        """Write it."""
        typer.echo(machine_text(json.loads(data)))

    def end(self, attempt: int, outcome: str, detail: str | None) -> None:
        """Leave it to the exit code: its event was before those that were asked for."""


class Lines(_Trouble):
    """For a person who looks at a file, or by another program: each event as a line of text."""

    def install(self, install: Install) -> None:
        """Leave it to the events."""

    def event(self, event: InstallEvent, data: str) -> None:  # noqa: ARG002 - the event has what a person reads
        """Write it."""
        typer.echo(described(event))

    def end(self, attempt: int, outcome: str, detail: str | None) -> None:
        """Write it as its verdict."""
        typer.echo(_verdict(attempt, outcome, detail))


class Picture:
    """For a person at a terminal: what has ended, below it the newest lines, and a bar of the steps."""

    def __init__(self, console: Console) -> None:
        self._lines: deque[str] = deque(maxlen=NEWEST_LINES)
        columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self._bar = Progress(*columns, console=console, auto_refresh=False)
        self._task = self._bar.add_task("no install yet", total=None)
        self._steps: list[str] = []
        self._newest = self._attempt = 0
        self._trouble: str | None = None
        self._live = Live(
            console=console,
            get_renderable=self._drawn,
            refresh_per_second=_DRAWN_A_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop_task(self._task)
        self._live.stop()

    def install(self, install: Install) -> None:
        """Learn the steps of an attempt, which its events name one by one."""
        self._newest, self._steps = install.attempt, [step.name for step in install.steps]
        if install.attempt and not self._attempt:
            self._bar.update(self._task, description=_name(install.attempt, None), total=len(self._steps))

    def event(self, event: InstallEvent, data: str) -> None:  # noqa: ARG002 - the event has what a person reads
        """Draw it."""
        if event.attempt != self._attempt:
            self._begin(event.attempt)
        if event.type == "log":
            self._lines.append(described(event))
            return
        if event.type == "step":
            self._step(event)
        if event.status != "started":
            self._print(described(event))

    def end(self, attempt: int, outcome: str, detail: str | None) -> None:
        """Write it as its verdict."""
        self._print(_verdict(attempt, outcome, detail))

    def trouble(self, detail: str | None) -> None:
        """Show it as long as it lasts."""
        self._trouble = detail

    def _begin(self, attempt: int) -> None:
        self._attempt = attempt
        self._lines.clear()
        total = len(self._steps) if attempt == self._newest else None
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(_name(attempt, None), total=total)

    def _step(self, event: InstallEvent) -> None:
        if event.status == "started":
            self._bar.update(self._task, description=_name(event.attempt, event.step))
        if event.attempt == self._newest and event.step in self._steps:
            done = self._steps.index(event.step) + (event.status == "succeeded")
            self._bar.update(self._task, completed=done)

    def _print(self, text: str) -> None:
        self._live.console.print(_line(text))

    def _drawn(self) -> RenderableType:
        lost = [_line(f"{self._trouble}; trying again")] if self._trouble else []
        return Group(*map(_line, list(self._lines)), self._bar, *lost)


def described(event: InstallEvent) -> str:
    """Return what a person is told of an event: one line, in which a terminal finds nothing to obey."""
    match event.type:
        case "log":
            # Of lines that end in CR LF the CR stays with the line, and moves nothing here.
            line = (event.line or "").removesuffix("\r").expandtabs()
            return _safe(f"  {event.step or '-'} | {line}")
        case "verdict":
            return _verdict(event.attempt, event.outcome or "", event.detail)
    return _safe(f"{event.step or '-'}: {event.status}{_aside(event.detail)}")


def _verdict(attempt: int, outcome: str, detail: str | None) -> str:
    return _safe(f"attempt {attempt}: {outcome}{_aside(detail)}")


def _aside(detail: str | None) -> str:
    return f" ({detail})" if detail else ""


def _name(attempt: int, step: str | None) -> str:
    return _safe(f"attempt {attempt}" + (f": {step}" if step else ""))


def _safe(text: str) -> str:
    # Lines of its own would look like lines of ours.
    return plain(text.replace("\n", "\ufffd"))


def _line(text: str) -> Text:
    return Text(plain(text[:_WIDEST]), no_wrap=True, overflow="ellipsis")
