"""What the server tells of itself: a structured line a request, and metrics; never a body, key, token or signature."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
import traceback
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import orjson
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from handlers.gateway.exchange import Exchange
from handlers.gateway.outlet import LogStream

_FLUSH_SECONDS: Final = 0.1
_FLUSH_LINES: Final = 512
_LATENCY_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BATCH_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
_LABELS: Final = ("operation", "status")
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class _Series:
    """The answers of one operation with one status: how many took at most each bound, and the seconds of all."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(_LATENCY_BUCKETS) + 1)
        self.seconds = 0.0


class _Answers(Collector):
    """Counts answers, in the loop's thread alone; prometheus_client's own classes take a lock for each number."""

    def __init__(self) -> None:
        self._series: defaultdict[tuple[str, int], _Series] = defaultdict(_Series)

    def count(self, operation: str, status: int, seconds: float) -> None:
        series = self._series[operation, status]
        series.counts[bisect_left(_LATENCY_BUCKETS, seconds)] += 1
        series.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("gatehouse_requests", "Requests answered.", labels=_LABELS)
        latency = HistogramMetricFamily(
            "gatehouse_request_seconds", "Seconds from a request's headers to the end of its answer.", labels=_LABELS
        )
        bounds = [*map(str, _LATENCY_BUCKETS), "+Inf"]
        for (operation, status), series in self._series.items():
            labels = [operation, str(status)]
            within = list(accumulate(series.counts))
            requests.add_metric(labels, within[-1])
            latency.add_metric(labels, list(zip(bounds, within, strict=True)), series.seconds)
        yield requests
        yield latency


class Metrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answers = _Answers()
        self._registry.register(self._answers)
        self._batches = Histogram(
            "gatehouse_commit_batch_items",
            "Items that shared one commit.",
            buckets=_BATCH_BUCKETS,
            registry=self._registry,
        )

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count one answer."""
        self._answers.count(operation, status, seconds)

    def committed(self, items: int) -> None:
        """Count one commit of the group-commit writer."""
        self._batches.observe(items)

    def render(self) -> bytes:
        """Return the text exposition format of Prometheus."""
        return generate_latest(self._registry)


class RequestLog:
    """Writes one JSON line a request; they are written together, at most a tenth of a second after the first.

    A write for each request would cost more than all that admission does beside its commit.
    """

    def __init__(self, stream: LogStream = sys.stderr) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def answered(self, exchange: Exchange, listener: str, status: int, seconds: float) -> None:
        """Note one answer; status 0 means that the client left before it."""
        line = {
            "time": _utc_now(),
            "level": "info",
            "event": "request",
            "listener": listener,
            "operation": exchange.operation,
            "method": exchange.method,
            "status": status,
            "traceId": exchange.trace_id,
            "milliseconds": round(seconds * 1000, 3),
        }
        self._lines.append(orjson.dumps(line))
        if len(self._lines) >= _FLUSH_LINES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Write what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            # A log that nobody reads any more fails no request.
            with contextlib.suppress(OSError):
                self._stream.write(b"\n".join(lines).decode() + "\n")
                self._stream.flush()


class JsonFormatter(logging.Formatter):
    """Formats every other log record as one JSON line, with the fields that its caller gave in `extra`.

    Of an exception it names the type and the place. Its message may repeat what was received.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        line: dict[str, Any] = {
            "time": _utc_now(),
            "level": record.levelname.lower(),
            "event": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = [_place(each) for each in _causes(record.exc_info[1])]
        return orjson.dumps(line, default=str).decode()


def configure_logging(stream: LogStream | None = None) -> None:
    """Send log records to `stream`, by default stderr, as JSON lines; libraries speak only to warn."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in ("uvicorn", "connexion", "alembic", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _causes(error: BaseException) -> list[BaseException]:
    """Return the exception and those that it came from, the first cause first."""
    chain = [error]
    while (cause := chain[0].__cause__ or chain[0].__context__) is not None and cause not in chain:
        chain.insert(0, cause)
    return chain


def _place(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "type": f"{type(error).__module__}.{type(error).__qualname__}",
        "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }


def _utc_now() -> str:
    now = time.time()
    second = int(now)
    return f"{_second(second)}.{int((now - second) * 1000):03d}Z"


@lru_cache(maxsize=1)
def _second(epoch: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(epoch))
