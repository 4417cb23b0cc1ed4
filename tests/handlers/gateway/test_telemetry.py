from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import time
from typing import Any, NoReturn

import pytest

from handlers.gateway import telemetry
from handlers.gateway.exchange import Exchange
from handlers.gateway.telemetry import JsonFormatter, Metrics, RequestLog
from tests.handlers.gateway.serving import JSON, OPERATOR, Served

SECRET = "s3cr3t"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("method", "target", "fields", "operation", "status"),
    [
        ("GET", "/v1/items/a", {}, "shop.showItem", 200),
        ("HEAD", "/v1/items/a", {}, "shop.showItem", 200),
        ("GET", "/v1/items", {}, "shop.listItems", 401),
        ("GET", "/v1/items?limit=0", OPERATOR, "shop.listItems", 400),
        ("GET", "/v1/join/nodes/a", OPERATOR, "join.getNode", 200),
        ("GET", "/docs", {}, "plumbing", 200),
        ("GET", "/none", {}, "-", 404),
        ("POST", "/v1/items", {}, "-", 405),
        ("GET", "*", {}, "-", 400),
    ],
)
def test_a_request_is_one_line(
    control: Served, method: str, target: str, fields: dict[str, str], operation: str, status: int
) -> None:
    before = len(control.lines())
    control.ask(method, target, {**fields, "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"})
    control.wait_until(lambda: len(control.lines()) > before)
    (line,) = control.lines()[before:]
    assert isinstance(line.pop("milliseconds"), float)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "info",
        "event": "request",
        "listener": "control",
        "operation": operation,
        "method": method,
        "status": status,
        "traceId": TRACE,
    }


def test_what_the_parser_refuses_is_a_line_and_a_count(control: Served) -> None:
    before = len(control.lines())
    with control.wire() as wire:
        wire.write(b"FOO / HTTP/1.1\r\n\r\n")
        answer = wire.read()
    control.wait_until(lambda: len(control.lines()) > before)
    (line,) = control.lines()[before:]
    assert (line["operation"], line["method"], line["status"]) == ("-", "-", 400)
    assert line["traceId"] == answer.header("X-Request-Id")
    assert 'gatehouse_requests_total{operation="-",status="400"}' in control.metrics.render().decode()


def test_no_line_has_anything_of_headers_query_path_or_body(control: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    before = len(control.lines())
    fields = {"Authorization": f"Bearer {SECRET}", "X-Registry-Signature": SECRET, "Cookie": SECRET, **JSON}
    body = json.dumps({"name": SECRET, "count": 1}).encode()
    for extra in ({}, OPERATOR):
        for target in (f"/v1/items/{SECRET}?token={SECRET}", f"/{SECRET}"):
            control.ask("PUT", target, {**fields, **extra}, body)
    lines = control.lines()[before:]
    assert len(lines) == 4
    assert SECRET not in json.dumps(lines)
    # pytest listens to uvicorn's own access log, which is switched off.
    assert not [each for each in caplog.records if SECRET in each.getMessage() and each.name != "uvicorn.access"]
    assert not logging.getLogger("uvicorn.access").propagate


def test_metrics_count_answers_by_operation_and_status() -> None:
    metrics = Metrics()
    metrics.answered("shop.showItem", 200, 0.0025)
    metrics.answered("shop.showItem", 200, 0.25)
    metrics.answered("shop.showItem", 404, 20.0)
    metrics.committed(3)
    text = metrics.render().decode()
    labels = 'operation="shop.showItem",status="200"'
    assert f"gatehouse_requests_total{{{labels}}} 2.0" in text
    assert f'gatehouse_request_seconds_bucket{{le="0.0025",{labels}}} 1.0' in text
    assert f'gatehouse_request_seconds_bucket{{le="0.001",{labels}}} 0.0' in text
    assert f'gatehouse_request_seconds_bucket{{le="0.1",{labels}}} 1.0' in text
    assert f'gatehouse_request_seconds_bucket{{le="0.25",{labels}}} 2.0' in text
    assert f'gatehouse_request_seconds_bucket{{le="+Inf",{labels}}} 2.0' in text
    assert f"gatehouse_request_seconds_sum{{{labels}}} 0.2525" in text
    assert 'gatehouse_requests_total{operation="shop.showItem",status="404"} 1.0' in text
    assert 'gatehouse_commit_batch_items_bucket{le="4.0"} 1.0' in text
    assert "gatehouse_commit_batch_items_sum 3.0" in text


def test_metrics_are_served_as_prometheus_reads_them(control: Served) -> None:
    control.ask("GET", "/v1/items/a")
    answer = control.ask("GET", "/metrics")
    assert answer.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    assert 'gatehouse_requests_total{operation="shop.showItem",status="200"}' in answer.body.decode()


def exchange() -> Exchange:
    async def receive() -> NoReturn:
        raise AssertionError

    return Exchange({"headers": [], "method": "GET"}, receive)


def test_a_time_is_written_to_the_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    for now, written in [(0.9999, "1970-01-01T00:00:00.999Z"), (1_796_048_286.25, "2026-11-30T14:18:06.250Z")]:
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert formatted()["time"] == written


def test_lines_are_written_together_when_there_are_many_of_them() -> None:
    stream = io.StringIO()

    async def answer_many() -> None:
        log = RequestLog(stream)
        for _ in range(telemetry._FLUSH_LINES - 1):
            log.answered(exchange(), "control", 200, 0.001)
        assert stream.getvalue() == ""
        log.answered(exchange(), "control", 200, 0.001)

    asyncio.run(answer_many())
    assert len(stream.getvalue().splitlines()) == telemetry._FLUSH_LINES


def test_a_few_lines_are_written_before_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_FLUSH_SECONDS", 0.01)
    written = asyncio.Event()

    class Stream(io.StringIO):
        def flush(self) -> None:
            written.set()

    async def answer_one() -> None:
        RequestLog(Stream()).answered(exchange(), "control", 200, 0.001)
        async with asyncio.timeout(20):
            await written.wait()

    asyncio.run(answer_one())


def test_what_waits_is_written_at_the_stop() -> None:
    with Served() as served:
        served.ask("GET", "/v1/items/a")
    assert json.loads(served.log.getvalue())["operation"] == "shop.showItem"


def test_a_log_that_cannot_be_written_fails_no_request_and_keeps_no_lines() -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> NoReturn:
            raise BrokenPipeError

    async def answer_many() -> None:
        log = RequestLog(Broken())
        for _ in range(2 * telemetry._FLUSH_LINES):
            log.answered(exchange(), "control", 200, 0.001)
        log.flush()
        assert log._lines == []

    asyncio.run(answer_many())


def formatted(**extra: Any) -> Any:
    record = logging.LogRecord(
        "some.place", logging.WARNING, "file.py", 7, "%s came", ("word",), extra.pop("error", None)
    )
    vars(record).update(extra)
    return json.loads(JsonFormatter().format(record))


def test_a_record_is_one_line_with_what_its_caller_added() -> None:
    line = formatted(operation="shop.showItem", traceId=TRACE, odd=object)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "event": "some.place",
        "message": "word came",
        "operation": "shop.showItem",
        "traceId": TRACE,
        "odd": str(object),
    }


def test_an_exception_is_named_with_its_causes_and_places_but_without_its_words() -> None:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(SECRET) from error
    except ValueError as error:
        line = formatted(error=(type(error), error, error.__traceback__))
    assert [each["type"] for each in line["exception"]] == ["builtins.KeyError", "builtins.ValueError"]
    assert all("test_telemetry.py" in place for each in line["exception"] for place in each["at"])
    assert SECRET not in json.dumps(line)


def test_exceptions_that_caused_each_other_are_named_once() -> None:
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert [each["type"] for each in formatted(error=(ValueError, first, None))["exception"]] == [
        "builtins.KeyError",
        "builtins.ValueError",
    ]


def test_libraries_speak_only_to_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    monkeypatch.setattr(root, "level", root.level)
    levels = {name: logging.getLogger(name).level for name in ("uvicorn", "connexion", "alembic", "httpx")}
    try:
        telemetry.configure_logging()
        assert [type(handler.formatter) for handler in root.handlers] == [JsonFormatter]
        assert not logging.getLogger("uvicorn.error").isEnabledFor(logging.INFO)
        assert logging.getLogger("gatehouse.gateway").isEnabledFor(logging.INFO)
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
