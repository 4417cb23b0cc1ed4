"""Overload: which requests are taken, and the refusal of the others before anything else is done for them."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from starlette.types import Scope

from generated.runtime import Operation
from handlers.gateway.answers import entry_answer
from handlers.gateway.exchange import Exchange
from handlers.gateway.faults import RETRY_AFTER, Api, Entry, Fault
from handlers.gateway.reply import ends_connection

log = logging.getLogger("gatehouse.gateway")

# In the scope of a request that is taken, the moment from which it counts; and of one that its endpoint has to refuse.
TAKEN: Final = "gatehouse.taken"
REFUSED: Final = "gatehouse.refused"

# So few unanswered requests are no overload, however long they take.
FEW: Final = 32
# An answer is late that takes so many times as long as one to a request that had the server for itself. The slowest of
# a hundred take about twice as long as most, which is to stay below ten times.
LATE: Final = 5.0
# Nothing is refused until answers have been late for so long: a burst of a thousand has been answered by then.
STANDING_SECONDS: Final = 0.25
# Where no answer comes at all, a disk or a lock has to be waited for, which is no overload yet.
STALL_SECONDS: Final = 1.0
# A client that asks again sooner than this after a refusal pays no heed to Retry-After; its connection is then not read
# for a while. Refusing it again and again would take the time of those that are served.
AT_ONCE_SECONDS: Final = 0.01
REST_SECONDS: Final = 0.05
# What an answer takes before anything is known of the machine, and by how much of it one measurement moves it.
FIRST_CALM_SECONDS: Final = 0.002
LEARNING: Final = 0.05
TELL_SECONDS: Final = 1.0

_READS: Final = frozenset({"GET", "HEAD"})
# What no trace id is (W3C Trace Context, section 3.2.2.3).
_NO_TRACE: Final = "0" * 32
_PARAMETER: Final = re.compile(r"\\\{[^}]*\\\}")


class Pressure:
    """Counts the requests that are taken and unanswered, and tells when no more are to be taken.

    That is when answers have been late for STANDING_SECONDS, or have not come at all for STALL_SECONDS, and as many
    requests are unanswered as can be answered before they are late, which are FEW at least. It is over once nothing had
    to be refused for a while. What is late follows from what an answer takes while nothing else is asked for, of which
    a running median is kept.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._unanswered = 0
        self._limit = float(FEW)
        self._alone = True
        self._calm = FIRST_CALM_SECONDS
        self._late_since: float | None = None
        self._answered_at = 0.0
        self._refused_at = float("-inf")
        self._counted_from = 0.0
        self._answers = 0

    def refuses(self) -> bool:
        """Tell whether a request that comes now is refused."""
        if self._unanswered < self._limit:
            return False
        now = self._clock()
        if not self._stands(now):
            return False
        self._refused_at = now
        return True

    def take(self) -> float:
        """Count a request that has come in whole; returns this moment, in seconds of the clock."""
        now = self._clock()
        self._alone = self._unanswered == 0
        if self._alone:
            self._answered_at, self._late_since = now, None
        self._unanswered += 1
        return now

    def answered(self, taken: float) -> None:
        """Count the end of the request that was taken at that moment."""
        now = self._clock()
        self._unanswered -= 1
        self._answers += 1
        self._answered_at = now
        seconds = now - taken
        if self._alone:
            self._calm *= 1 + LEARNING if seconds > self._calm else 1 - LEARNING
        late = LATE * self._calm
        if seconds <= late:
            self._late_since = None
        elif self._late_since is None:
            self._late_since = now
        self._adapt(now, late)

    def _stands(self, now: float) -> bool:
        if now - self._refused_at < STANDING_SECONDS + REST_SECONDS:
            return True
        if self._late_since is None:
            return now - self._answered_at > STALL_SECONDS
        return now - self._late_since > STANDING_SECONDS

    def _adapt(self, now: float, late: float) -> None:
        """Let as many be unanswered as are answered in the time after which they are late (Little's law)."""
        seconds = now - self._counted_from
        if seconds >= STANDING_SECONDS:
            self._limit = max(FEW, self._answers / seconds * late)
            self._counted_from, self._answers = now, 0


class Refusal:
    """The 503 of one operation, rendered but for the trace id."""

    def __init__(self, name: str, entry: Entry) -> None:
        self.name = name
        retry = {"Retry-After": str(RETRY_AFTER[Fault.OVERLOADED])} if "Retry-After" in entry.headers else {}
        rendered = entry_answer(entry, Fault.OVERLOADED.value, _NO_TRACE, headers=retry)
        before, after = rendered.body.split(_NO_TRACE.encode())
        self._fields = b"".join(b"%b: %b\r\n" % field for field in rendered.headers) + b"x-request-id: "
        self._before = b"\r\n\r\n" + before
        self._after = after

    def after(self, preamble: bytes, trace_id: str) -> bytes:
        """Return the whole answer; `preamble` is the status line and what header fields every answer has."""
        trace = trace_id.encode()
        return b"".join((preamble, self._fields, trace, self._before, trace, self._after))


class Door:
    """What one listener lets in: what its APIs shed as long as the pressure allows, and all else at any time.

    `count` is told of each answer as Metrics.answered is. What is refused here has no line of its own in the log: there
    is one a second for all of them.
    """

    def __init__(
        self,
        pressure: Pressure,
        operations: Iterable[tuple[str, Api, Operation]],
        count: Callable[[str, int, float], None],
    ) -> None:
        self._pressure = pressure
        self._count = count
        shed = [(name, api, operation) for name, api, operation in operations if operation.id in api.shed]
        self._refusals = [Refusal(name, api.entry(Fault.OVERLOADED, operation)) for name, api, operation in shed]
        self._find = re.compile("|".join(_pattern(operation) for _, _, operation in shed).encode()).fullmatch
        self._resting: deque[tuple[float, Callable[[], None]]] = deque()
        self._refused = 0

    def refuses(self, method: str) -> bool:
        """Tell whether a request of this method that comes now is refused."""
        return method not in _READS and self._pressure.refuses()

    def take(self, scope: Scope) -> None:
        """Count a request that has come in whole, and is not refused, until `let_go`."""
        if scope["method"] not in _READS and TAKEN not in scope and REFUSED not in scope:
            scope[TAKEN] = self._pressure.take()

    def let_go(self, scope: Scope) -> None:
        """Count the end of a request, whether it was taken or not."""
        taken = scope.pop(TAKEN, None)
        if taken is not None:
            self._pressure.answered(taken)

    def refusal(self, method: str, exchange: Exchange, preamble: bytes) -> bytes | None:
        """Return the answer to a request of which no more than the header section is known, and count it.

        None where it takes more to answer it: its path or Host is at fault, or its connection has to end.
        """
        scope = exchange.scope
        found = self._find(method.encode() + b" " + scope["path"].encode())
        if found is None or found.lastindex is None or exchange.hosts != 1 or ends_connection(exchange):
            return None
        refusal = self._refusals[found.lastindex - 1]
        self._count(refusal.name, 503, time.perf_counter() - exchange.started)
        if not self._refused:
            asyncio.get_running_loop().call_later(TELL_SECONDS, self.tell)
        self._refused += 1
        return refusal.after(preamble, exchange.trace_id)

    def rest(self, wake: Callable[[], None]) -> None:
        """Call `wake` after REST_SECONDS; one timer does for all that rest."""
        loop = asyncio.get_running_loop()
        if not self._resting:
            loop.call_later(REST_SECONDS, self._wake)
        self._resting.append((loop.time() + REST_SECONDS, wake))

    def _wake(self) -> None:
        loop = asyncio.get_running_loop()
        while self._resting and self._resting[0][0] <= loop.time():
            self._resting.popleft()[1]()
        if self._resting:
            loop.call_at(self._resting[0][0], self._wake)

    def tell(self) -> None:
        """Log how many were refused since that was last told, if any: once a second, and at the stop."""
        if self._refused:
            log.warning("overloaded: %d requests were refused unread", self._refused)
            self._refused = 0


def _pattern(operation: Operation) -> str:
    """Match a method and a path without percent-encoding; what else could be meant by it takes the ordinary way."""
    path = _PARAMETER.sub("[^/%]+", re.escape(operation.path))
    return f"({operation.method} {path})"
