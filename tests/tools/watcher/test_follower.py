from __future__ import annotations

import json
import random
import socket
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.tools.watcher.conftest import Installer, Seen, answer, stream
from tools.commands.client import Client
from tools.commands.terminal import RefusedError, UnreachableError
from tools.watcher import sse
from tools.watcher.follower import Follower, Pace

PROBLEM = {"code": "C", "title": "T", "detail": "D"}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited; nobody does."""
    waited: list[float] = []
    monkeypatch.setattr("tools.watcher.follower.time.sleep", waited.append)
    return waited


@pytest.fixture
def view() -> Seen:
    return Seen()


def follow(installer: Installer, view: Seen, after: int = 0, pace: Pace | None = None) -> bool:
    with Client(installer.url, "code") as client:
        return Follower(client, view, after, pace).run()


def problem(status: int, **fields: str) -> Any:
    body = json.dumps(PROBLEM | {"status": status}).encode()
    return lambda handler: answer(handler, body, status=status, **fields)


def cut(installer: Installer, length: int) -> Any:
    """A stream that is lost after so many bytes."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        frames = installer.frames(int(handler.headers["Last-Event-ID"]))
        stream(handler, frames[:length], whole=False)

    return send


def ids(view: Seen) -> list[int]:
    return [event.id for event in view.events]


def test_a_whole_install_is_told_from_its_first_event(installer: Installer, view: Seen) -> None:
    installer.run(["é\x00\u2028", ""])
    assert follow(installer, view)
    assert [json.loads(data) for data in view.data] == installer.events
    assert [step.name for step in view.installs[0].steps] == ["one", "two"]
    assert installer.resumed == ["0"]


def test_the_verdict_decides(installer: Installer, view: Seen) -> None:
    installer.run([], "failed")
    assert not follow(installer, view)
    assert view.events[-1].detail == "so it is"


def test_only_the_newest_attempt_decides(installer: Installer, view: Seen) -> None:
    installer.run(["a"], "failed")
    installer.run(["b"])
    assert follow(installer, view)
    assert [event.attempt for event in view.events] == [1] * 4 + [2] * 4


def test_what_came_before_is_not_told_where_that_was_not_asked(installer: Installer, view: Seen) -> None:
    installer.run(["a", "b"])
    assert follow(installer, view, after=3)
    assert ids(view) == [4, 5]


@pytest.mark.parametrize("after", [5, 9])
def test_after_the_last_event_the_end_is_told_at_once(installer: Installer, view: Seen, after: int) -> None:
    installer.run(["a", "b"], "failed")
    assert not follow(installer, view, after)
    assert view.ends == [(1, "failed", "so it is")]
    assert installer.resumed == []


def test_an_attempt_that_begins_while_an_older_one_is_told_is_the_one_that_decides(
    installer: Installer, view: Seen
) -> None:
    installer.run(["a"], "failed")

    def send(handler: BaseHTTPRequestHandler) -> None:
        frames = installer.frames(0)
        installer.run(["b"])
        stream(handler, frames + installer.frames(4))

    installer.answers = [send]
    assert follow(installer, view)
    assert ids(view) == list(range(1, 9))


def test_an_end_without_a_verdict_of_the_newest_attempt_is_a_lost_connection(
    installer: Installer, view: Seen, pauses: list[float]
) -> None:
    def send(handler: BaseHTTPRequestHandler) -> None:
        stream(handler, installer.frames(0))
        installer.run(["a"])

    installer.answers = [send]
    assert follow(installer, view)
    assert ids(view) == [1, 2, 3, 4]
    assert pauses == [0.02]
    assert view.troubles == [None, f"{installer.url} has ended the stream", None]


@pytest.mark.parametrize("seed", range(4))
def test_lost_connections_lose_nothing_and_repeat_nothing(
    installer: Installer, view: Seen, pauses: list[float], seed: int
) -> None:
    chance = random.Random(seed)
    installer.run([f"line {number} é\U0001f600" for number in range(60)])
    installer.answers = [cut(installer, chance.randrange(900)) for _ in range(30)]
    assert follow(installer, view)
    assert [json.loads(data) for data in view.data] == installer.events
    assert len(pauses) == min(30, len(installer.resumed) - 1)


def test_what_a_server_sends_again_is_not_told_again(installer: Installer, view: Seen, pauses: list[float]) -> None:
    installer.run(["a", "b"])
    # Of the first 260 bytes some are whole events.
    installer.answers = [cut(installer, 260), lambda handler: stream(handler, installer.frames(0))]
    assert follow(installer, view)
    assert installer.resumed == ["0", "2"]
    assert ids(view) == [1, 2, 3, 4, 5]
    assert pauses == [0.02]


def test_who_is_locked_out_waits_as_long_as_the_server_says(
    installer: Installer, view: Seen, pauses: list[float]
) -> None:
    installer.run(["a"])
    installer.answers = [problem(429, Retry_After="8"), problem(429, Retry_After="x"), problem(429)]
    assert follow(installer, view)
    assert pauses == [8, 2, 4]
    assert ids(view) == [1, 2, 3, 4]
    assert view.troubles == ["C (429): T"] * 3 + [None]


def test_a_server_that_is_away_is_waited_for_with_growing_pauses(
    installer: Installer, view: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    installer.begin()
    installer.tell("log", step="one", line="a")
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        installer.away = len(waited) < 5
        if not installer.away:
            installer.end("succeeded")

    monkeypatch.setattr("tools.watcher.follower.time.sleep", sleep)
    installer.answers = [cut(installer, 10_000)]
    assert follow(installer, view, pace=Pace(longest_pause=0.1))
    assert waited == [0.02, 0.04, 0.08, 0.1, 0.1]
    assert ids(view) == [1, 2]


def test_a_server_that_fails_for_a_while_is_waited_for(installer: Installer, view: Seen, pauses: list[float]) -> None:
    installer.run(["a"])
    installer.answers = [problem(500), lambda handler: answer(handler, b"<html>", status=502)]
    assert follow(installer, view)
    assert pauses == [2, 4]


def test_a_server_that_is_not_there_to_begin_with_is_unreachable(view: Seen) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        installer = Installer(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(UnreachableError):
            follow(installer, view)


@pytest.mark.parametrize(
    ("send", "detail"),
    [
        (problem(401), r"^C \(401\): T"),
        (problem(400), r"^C \(400\): T"),
        (lambda handler: answer(handler, b"{}"), "something else than a stream"),
        (lambda handler: stream(handler, b"data: []\n\n"), "none of an install"),
        (lambda handler: stream(handler, b"data: " + b"x" * 200), "too long"),
    ],
)
def test_what_waiting_does_not_mend_is_refused(
    installer: Installer, view: Seen, send: Any, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "MOST_BYTES", 100)
    installer.begin()
    installer.answers = [send]
    with pytest.raises(RefusedError, match=detail):
        follow(installer, view)


def test_an_answer_that_is_no_install_is_refused(
    installer: Installer, view: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installer, "install", lambda: b"{}")
    with pytest.raises(RefusedError, match="something else than an install"):
        follow(installer, view)


def test_a_stream_that_is_silent_for_too_long_is_lost(installer: Installer, view: Seen, pauses: list[float]) -> None:
    installer.run(["a"])
    installer.answers = [lambda handler: handler.connection.recv(1)]
    assert follow(installer, view, pace=Pace(silence=0.05))
    assert len(pauses) == 1
    assert ids(view) == [1, 2, 3, 4]
