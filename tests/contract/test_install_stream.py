from __future__ import annotations

import contextlib
import time
from typing import Any, Final

import pytest

from tests.support.effort import tries
from tests.support.gatehouse import NewServer, wait_for
from tests.support.installs import (
    EVENTS,
    SUCCEEDS,
    Event,
    Machine,
    assert_readers_miss_nothing,
    logged,
    numbered,
)
from tests.support.wire import Wire, message

COMMENT_SECONDS: Final = 0.2
AT_ONCE_SECONDS: Final = 1.0
LAST: Final = (1 << 63) - 1
INVALID: Final = (400, "INVALID_REQUEST")

# As they stand in a query and in a header.
MALFORMED: Final[list[tuple[str, bytes]]] = [
    ("-1", b"-1"),
    ("-0", b"-0"),
    ("%2B1", b"+1"),
    ("+1", b"+1"),
    ("1_0", b"1_0"),
    (str(LAST + 1), str(LAST + 1).encode()),
    ("9" * 40, b"9" * 40),
    ("1.0", b"1.0"),
    ("1e3", b"1e3"),
    ("01", b"01"),
    ("00", b"00"),
    ("0x1", b"0x1"),
    ("", b""),
    ("%201", b"1 1"),
    ("1%20", b"1,"),
    ("1%0A", b"1\t1"),
    ("%D9%A3", "٣".encode()),
    ("%EF%BC%91", "１".encode()),
    ("%C2%B2", "²".encode("latin-1")),
    ("%FF", b"\xff"),
    ("1%00", b"1, 1"),
    ("null", b"null"),
    ("1,2", b"1,2"),
]


def verdicts(events: list[Event]) -> list[tuple[int, str]]:
    return [(event.value["attempt"], event.value["outcome"]) for event in events if event.type == "verdict"]


def test_a_reader_hears_at_once_then_comments_then_all_of_the_install_and_a_later_one_the_same(
    new_server: NewServer,
) -> None:
    server = new_server(environment={"GATEHOUSE_INSTALLER_COMMENT_SECONDS": str(COMMENT_SECONDS)})
    with server:
        machine = Machine(server)
        assert machine.install() == {
            "attempt": 0,
            "state": "idle",
            "steps": [],
            "startedAt": None,
            "endedAt": None,
            "detail": None,
            "lastEventId": 0,
        }
        asked = time.monotonic()
        with machine.stream() as stream, machine.stream(LAST) as beyond:
            assert stream.begun - asked < AT_ONCE_SECONDS
            assert stream.head.header("Cache-Control") == "no-store"
            assert stream.head.header("X-Accel-Buffering") == "no"
            assert stream.head.header("Content-Length") is None
            comments = stream.wait_for_comments(3)
            assert comments[0] - asked > COMMENT_SECONDS / 2
            assert comments[2] - comments[0] > COMMENT_SECONDS
            assert beyond.wait_for_comments(1)
            assert machine.configure().status == 200
            started = machine.start()
            assert (started["attempt"], started["state"]) == (1, "running")
            events = stream.rest()
            assert beyond.rest() == []
        shown = machine.ended()
        assert machine.history() == events
        assert [event.id for event in events] == list(range(1, len(events) + 1))
        # The shipped plan, which is real and harmless.
        assert verdicts(events) == [(1, "succeeded")]
        steps = [(event.value["step"], event.value["status"]) for event in events if event.type == "step"]
        names = [step["name"] for step in shown["steps"]]
        assert steps == [(name, status) for name in names for status in ("started", "succeeded")]
        assert logged(events)
        assert (shown["state"], shown["lastEventId"], shown["detail"]) == ("succeeded", len(events), None)
        assert {step["status"] for step in shown["steps"]} == {"succeeded"}
        assert "node-1.example" in (server.state / "install/node.yaml").read_text()


@pytest.mark.parametrize("seed", range(tries(2, elsewhere=1)))
def test_a_reader_that_connects_again_and_again_has_each_event_once(machine: Machine, seed: int) -> None:
    connections = tries(200, elsewhere=40)
    assert_readers_miss_nothing(machine, connections=connections, at_a_time=25, seed=seed)


def test_the_header_wins(machine: Machine) -> None:
    assert machine.run(SUCCEEDS)["state"] == "succeeded"
    last = machine.last_id
    for after, last_event_id in ((0, last - 1), (last, last - 1), (LAST, last - 1)):
        with machine.stream(after, last_event_id=last_event_id) as stream:
            assert [event.id for event in stream.rest()] == [last]
    with machine.stream(0, last_event_id=last) as stream:
        assert stream.rest() == []


@pytest.mark.parametrize(("query", "header"), MALFORMED)
def test_what_is_no_id_is_refused_in_both_places_whatever_stands_in_the_other(
    machine: Machine, query: str, header: bytes
) -> None:
    for refused in (
        machine.refused(f"?after={query}"),
        machine.refused("", ("Last-Event-ID", header)),
        machine.refused(f"?after={query}", ("Last-Event-ID", "0")),
        machine.refused("?after=0", ("Last-Event-ID", header)),
    ):
        assert refused.outcome == INVALID
        assert refused.header("Content-Type") == "application/problem+json"


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("?after=0&after=0", []),
        ("?after=0&after=1", []),
        ("?after=0&after=", []),
        ("?after=0&%61fter=0", []),
        ("?after", []),
        ("", [("Last-Event-ID", "0"), ("Last-Event-ID", "0")]),
        ("", [("Last-Event-ID", "0"), ("last-event-id", "1")]),
        ("?after=0&after=0", [("Last-Event-ID", "0")]),
    ],
)
def test_an_id_that_comes_twice_or_without_a_value_is_refused(
    machine: Machine, query: str, fields: list[tuple[str, str | bytes]]
) -> None:
    assert machine.refused(query, *fields).outcome == INVALID


@pytest.mark.parametrize("behind", [0, 1, 1000, LAST])
def test_beyond_the_end_a_stream_waits_while_an_attempt_runs_and_ends_after_the_verdict(
    machine: Machine, behind: int
) -> None:
    before = machine.last_id
    after = min(before + 3 + behind, LAST)
    with machine.writing() as pen, machine.stream(after) as stream, machine.stream(last_event_id=after) as other:
        pen.lines(0, 2)
        stream.wait_for_comments(1)
        pen.lines(2, 3)
        pen.close()
        events, others = stream.rest(), other.rest()
    assert events == others == machine.history(before)[after - before :]
    assert len(events) == max(0, 8 - 3 - behind)
    for beyond in (after, before + 8, LAST):
        assert machine.history(beyond) == [] or beyond < before + 8


def test_a_stream_goes_through_the_verdicts_of_earlier_attempts_to_that_of_the_latest(machine: Machine) -> None:
    before = machine.last_id
    failed = machine.run(("fails", "sh", "-c", "echo out; echo err >&2; exit 3"), ("never", "true"))
    first = failed["attempt"]
    assert failed["state"] == "failed"
    assert "3" in failed["detail"]
    assert [step["status"] for step in failed["steps"]] == ["failed", "waiting"]
    with machine.stream(before) as stream:
        events = stream.rest()
    assert verdicts(events) == [(first, "failed")]
    assert [event.value.get("status") for event in events] == ["started", None, None, "failed", None]
    assert sorted(logged(events)) == ["err", "out"]
    assert events[-2].value["detail"]
    assert events[-1].value["detail"] == failed["detail"]

    with machine.writing() as pen, machine.stream(before) as replaying, machine.stream(events[-1].id) as live:
        assert replaying.take(len(events)) == events
        pen.lines(0, 2)
        pen.close()
        rest = replaying.rest()
        assert live.rest() == rest
    assert verdicts(rest) == [(first + 1, "succeeded")]
    assert machine.history(before) == [*events, *rest]


def test_a_stream_that_is_open_when_a_new_attempt_starts_goes_on_into_it(machine: Machine) -> None:
    before = machine.last_id
    # Far more than sockets hold, so that it has not come to its end when the next attempt starts.
    width, count = 60_000, 120
    with contextlib.ExitStack() as opened:
        with machine.writing() as pen:
            stream = opened.enter_context(machine.stream(before, buffer=4096))
            pen.lines(0, count, width)
        assert machine.run(SUCCEEDS)["state"] == "succeeded"
        events = stream.rest()
    latest = machine.install()["attempt"]
    assert verdicts(events) == [(latest - 1, "succeeded"), (latest, "succeeded")]
    assert [line.rstrip(".") for line in logged(events)] == numbered(count)
    assert [event.id for event in events] == list(range(before + 1, machine.last_id + 1))


def test_a_step_that_takes_too_long_fails_the_attempt(machine: Machine) -> None:
    before = machine.last_id
    failed = machine.run(("slow", "sh", "-c", "echo begun; sleep 50"), seconds=1)
    assert failed["state"] == "failed"
    assert failed["steps"][0]["status"] == "failed"
    events = machine.history(before)
    assert logged(events) == ["begun"]
    assert [event.type for event in events[-2:]] == ["step", "verdict"]


def test_a_head_request_gets_the_headers_alone_and_the_connection_stays(machine: Machine) -> None:
    with machine.writing(), machine.connect() as wire:
        for query, status in (("", 200), ("?after=0", 200), ("?after=-1", 400)):
            wire.write(message("HEAD", EVENTS + query, machine.operator))
            head = wire.read("HEAD")
            assert head.status == status
            if status == 200:
                assert head.header("Content-Type") == "text/event-stream"
                assert head.header("Cache-Control") == "no-store"
                assert head.header("X-Accel-Buffering") == "no"


def test_a_connection_carries_on_after_a_stream_that_has_ended(machine: Machine) -> None:
    assert machine.run(SUCCEEDS)["state"] == "succeeded"
    with machine.connect() as wire:
        for _ in range(2):
            wire.write(message("GET", f"{EVENTS}?after={LAST}", machine.operator))
            assert wire.read_head().status == 200
            assert _whole(wire) == b": gatehouse\n\nretry: 2000\n\n"


def _whole(wire: Wire) -> bytes:
    return b"".join(iter(wire.read_chunk, b""))


def test_the_install_is_shown_as_it_goes(machine: Machine) -> None:
    before = machine.install()
    with machine.writing(("then", "true")) as pen:
        wait_for(lambda: machine.install()["steps"][0]["status"] == "running")
        running: Any = machine.install()
        assert (running["attempt"], running["state"]) == (before["attempt"] + 1, "running")
        assert [(step["name"], step["status"]) for step in running["steps"]] == [
            ("write", "running"),
            ("then", "waiting"),
        ]
        assert (running["endedAt"], running["detail"]) == (None, None)
        pen.lines(0, 1)
        with machine.stream(before["lastEventId"]) as stream:
            line = stream.take_until(lambda event: event.type == "log")[-1]
        assert machine.last_id == line.id
    shown = machine.install()
    assert [step["status"] for step in shown["steps"]] == ["succeeded", "succeeded"]
    times = [time for step in shown["steps"] for time in (step["startedAt"], step["endedAt"])]
    assert [shown["startedAt"], *times, shown["endedAt"]] == sorted([shown["startedAt"], *times, shown["endedAt"]])
