"""Reads the events of an install, once each and in order, whatever connections are lost, until the last verdict."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Final

import httpx

from tools.commands.client import Client, refusal
from tools.commands.terminal import RefusedError, UnreachableError
from tools.watcher import answers
from tools.watcher.answers import Install, InstallEvent
from tools.watcher.sse import Event, Parser, TooLongError
from tools.watcher.view import View

INSTALL: Final = "/v1/installer/install"
EVENTS: Final = f"{INSTALL}/events"
SUCCEEDED: Final = "succeeded"
ENDED: Final = frozenset({SUCCEEDED, "failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds: how long a stream may be silent, and pauses before another try; the stream's `retry` is the first."""

    silence: float = 60.0
    first_pause: float = 2.0
    longest_pause: float = 30.0


class _LaterError(Exception):
    """The server asks to come again, after so many seconds where it says when."""

    def __init__(self, detail: str, seconds: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.seconds = seconds


class Follower:
    """Follows an install from the event after `after` on, and shows it."""

    def __init__(self, client: Client, view: View, after: int = 0, pace: Pace | None = None) -> None:
        self._client = client
        self._view = view
        self._position = after
        self._pace = pace or Pace()
        self._retry = self._pause = self._pace.first_pause
        self._newest = 0
        self._reached = False

    def run(self) -> bool:
        """Follow until the newest attempt has ended; return whether it succeeded.

        Raises UnreachableError where there is no server from the beginning, and RefusedError where waiting is of no
        use.
        """
        while True:
            try:
                outcome = self._follow()
            except UnreachableError as error:
                if not self._reached:
                    raise
                self._wait(error.detail)
            except _LaterError as error:
                self._wait(error.detail, error.seconds)
            else:
                if outcome is not None:
                    return outcome == SUCCEEDED
                self._wait(f"{self._client.url} has ended the stream")

    def _follow(self) -> str | None:
        """Follow over one connection; return the last outcome, None where the stream ends before there is one."""
        install = self._install()
        if install.state in ENDED and install.last_event_id <= self._position:
            # There is no event any more that could tell it.
            self._view.end(install.attempt, install.state, install.detail)
            return install.state
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self._position)}
        with self._client.streamed(EVENTS, headers, self._pace.silence) as response:
            self._check(response)
            if response.headers.get("Content-Type", "").partition(";")[0].strip() != "text/event-stream":
                raise RefusedError(f"{self._client.url} answers with something else than a stream of events")
            return self._read(response)

    def _read(self, response: httpx.Response) -> str | None:
        parser = Parser()
        self._connected()
        try:
            for data in response.iter_bytes():
                for event in parser.feed(data):
                    outcome = self._take(event)
                    if outcome is not None:
                        return outcome
                self._heed(parser)
        except TooLongError:
            raise RefusedError(f"{self._client.url} sends an event that is too long") from None
        return None

    def _heed(self, parser: Parser) -> None:
        if parser.retry is not None:
            self._retry = self._pause = min(parser.retry / 1000, self._pace.longest_pause)

    def _take(self, sent: Event) -> str | None:
        """Show an event that was not there yet; return the outcome that it tells, where that is the last one."""
        event = answers.install_event(sent.data)
        if event is None:
            raise RefusedError(f"{self._client.url} sends an event that is none of an install")
        if event.id <= self._position:
            return None
        if event.attempt > self._newest:
            self._look()
        self._view.event(event, sent.data)
        self._position = event.id
        return event.outcome if event.type == "verdict" and self._is_last(event) else None

    def _is_last(self, verdict: InstallEvent) -> bool:
        """Whether there is no newer attempt, as far as can be known: the server may have ended with this one."""
        if verdict.attempt >= self._newest:
            self._look()
        return verdict.attempt >= self._newest

    def _look(self) -> None:
        """Learn of a new attempt and its steps, where the server tells now."""
        with contextlib.suppress(UnreachableError, RefusedError, _LaterError):
            self._install()

    def _install(self) -> Install:
        """Ask for the latest attempt and show its steps."""
        response = self._client.send("GET", INSTALL)
        self._check(response)
        install = answers.install(response.content)
        if install is None:
            raise RefusedError(f"{self._client.url} answers with something else than an install")
        self._reached = True
        self._newest = max(self._newest, install.attempt)
        self._view.install(install)
        return install

    def _check(self, response: httpx.Response) -> None:
        """Raise what an answer that is no success asks for: to come again, or to give up."""
        if response.status_code == 200:
            return
        response.read()
        fault = refusal(response)
        detail = fault.detail.partition("\n")[0]
        if response.status_code == 429:
            after = response.headers.get("Retry-After", "")
            raise _LaterError(detail, int(after) if after.isascii() and after.isdigit() and len(after) < 5 else None)
        if self._reached and response.status_code >= 500:
            raise _LaterError(detail)
        raise fault

    def _connected(self) -> None:
        self._pause = self._retry
        self._view.trouble(None)

    def _wait(self, detail: str, seconds: float | None = None) -> None:
        self._view.trouble(detail)
        if seconds is None:
            seconds = self._pause
            self._pause = min(2 * self._pause, self._pace.longest_pause)
        time.sleep(seconds)
