"""What a scenario puts around a run: the clock, the operator and the services, none of them real."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson

from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.execution.exchange import Answered, Exchange, NotConnected, TooLarge, Unanswered
from handlers.coordinator.scenarios.journal import MemoryJournal
from handlers.coordinator.scenarios.scenario import Act, Reply, Scenario
from storage.execution.records import Command
from storage.refusals import Refusal

# What admission and retry-same may refuse here, by the codes of their operations.
CODES: Final[Mapping[Refusal, str]] = {
    Refusal.EVENT_INVALID: "event.invalid",
    Refusal.EVENT_TOO_LARGE: "event.too-large",
    Refusal.INPUT_INVALID: "input.invalid",
    Refusal.RETRY_REFUSED: "retry.refused",
    Refusal.EVALUATION_UNCERTAIN: "evaluation.uncertain",
    Refusal.MUTATION_UNCERTAIN: "mutation.uncertain",
}


class UnfinishedError(Exception):
    """The run cannot go on to where the scenario would have it; the message says why."""


class Sent(NamedTuple):
    """A request that a service got; `body` is its JSON, None where it has none."""

    step: str
    method: str
    path: str
    query: str
    body: Any
    receipt: bool


class Clock:
    """A clock that goes on only when it is told to; it gives epoch milliseconds."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Operator:
    """Does what the scenario lets an operator do, each act at its time; what is refused is noted in `troubles`."""

    def __init__(self, acts: tuple[Act, ...], clock: Clock, journal: MemoryJournal) -> None:
        self._admitted_at = clock.now
        self._left = list(acts)
        self._clock = clock
        self._journal = journal
        self.troubles: list[str] = []

    def next_at(self) -> int | None:
        """When the next act is; None where there is none."""
        return self._admitted_at + self._left[0].after if self._left else None

    def until(self, time: int) -> None:
        """Let the clock go on to `time`, and do on the way what is to be done by then."""
        while (at := self.next_at()) is not None and at <= time:
            self._clock.now = max(at, self._clock.now)
            self._do(self._left.pop(0))
        self._clock.now = max(time, self._clock.now)

    def _do(self, act: Act) -> None:
        if act.act == "cancel":
            self._journal.cancel()
        elif refusal := self._journal.retry_same(accept_repeat=act.accept_repeat):
            self.troubles.append(f"the act retry-same after {act.after / 1000:g} s was refused: {CODES[refusal]}")


class Services:
    """A CallerPort whose answers are those of the scenario; it keeps what it is sent."""

    def __init__(self, scenario: Scenario, clock: Clock, operator: Operator) -> None:
        self._replies: Mapping[bool, Mapping[str, tuple[Reply, ...]]] = {
            False: scenario.replies,
            True: scenario.receipts,
        }
        self._given: dict[tuple[bool, str], int] = defaultdict(int)
        self._clock = clock
        self._operator = operator
        self.sent: list[Sent] = []

    async def send(self, connection: Connection, command: Command) -> Exchange:
        """Answer a command with the next of its step's replies; raises UnfinishedError without one."""
        url = urlsplit(command.url)
        body = None if command.body is None else orjson.loads(command.body)
        step = _step(command)
        self.sent.append(Sent(step, command.method, url.path, url.query, body, receipt=False))
        return self._exchange(connection, self._reply(step, receipt=False))

    async def receipt(self, connection: Connection, command: Command) -> Exchange:
        """Answer the question after a command's receipt likewise."""
        path = (connection.receipt_path or "").replace("{key}", command.key)
        step = _step(command)
        self.sent.append(Sent(step, "GET", path, "", None, receipt=True))
        return self._exchange(connection, self._reply(step, receipt=True))

    def left_over(self) -> list[str]:
        """Say which replies nobody asked for."""
        return [
            f"{'receipts' if receipt else 'replies'}.{step}: {len(replies)} given, {self._given[receipt, step]} used"
            for receipt, by_step in self._replies.items()
            for step, replies in by_step.items()
            if self._given[receipt, step] < len(replies)
        ]

    def _reply(self, step: str, *, receipt: bool) -> Reply:
        replies = self._replies[receipt].get(step, ())
        given = self._given[receipt, step]
        self._given[receipt, step] += 1
        if given < len(replies):
            return replies[given]
        if replies and replies[-1].always:
            return replies[-1]
        member, asked = ("receipts", "the receipt was asked for") if receipt else ("replies", "it was sent")
        message = f"{member}.{step}: {len(replies)} given, and {asked} once more"
        raise UnfinishedError(message)

    def _exchange(self, connection: Connection, reply: Reply) -> Exchange:
        patience = round(connection.timeout_seconds * 1000)
        late = reply.fault == "timeout" or reply.after >= patience
        self._operator.until(self._clock.now + (patience if late else reply.after))
        if reply.fault == "refused-connection":
            return NotConnected()
        if late or reply.fault == "cut-off":
            return Unanswered()
        if reply.status is None:
            return TooLarge(200)
        if reply.status >= 300:
            return Answered(reply.status, b"", reply.retry_after)
        if len(reply.body) > connection.max_response_bytes:
            return TooLarge(reply.status)
        return Answered(reply.status, reply.body, reply.retry_after)


def _step(command: Command) -> str:
    """Return the step of a command; its key is the run's id, a dot and the step (execution/course.py)."""
    return command.key.partition(".")[2]
