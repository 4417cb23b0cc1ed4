from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import time
from collections.abc import Iterator
from typing import Final, LiteralString

import psycopg
import pytest

from tests.durability.conftest import on_postgresql
from tests.durability.process import beside_the_database, peak_memory
from tests.durability.test_join import prove
from tests.storage.postgresql import Server
from tests.support.effort import THOROUGH, in_ci_alone, tries
from tests.support.gatehouse import Gatehouse, NewServer, wait_for
from tests.support.installs import (
    EVENTS,
    GREETING,
    SUCCEEDS,
    Event,
    Machine,
    Stream,
    assert_readers_miss_nothing,
    logged,
    numbered,
)
from tests.support.wire import ConnectionEnded, message

END_SECONDS: Final = 3.0
MOST_KIBIBYTES: Final = 200 * 1024
# So little is taken of a stream that nobody reads.
SMALL_BUFFER: Final = 4096
# Together far more than sockets hold.
WIDTH: Final = 5_000
LINES: Final = 1_200
READERS: Final = tries(200, elsewhere=10)


@pytest.fixture(scope="module")
def machine(new_server: NewServer) -> Iterator[Machine]:
    """A machine that the tests of this module bring into trouble one after another; it has a config."""
    with new_server() as server:
        machine = Machine(server)
        assert machine.configure().status == 200
        yield machine
        assert "Traceback" not in server.log
        assert '"level":"error"' not in server.log


def outcomes(events: list[Event]) -> list[str]:
    return [event.value["outcome"] for event in events if event.type == "verdict"]


def until_lost(stream: Stream) -> list[Event]:
    """Read until the connection ends amid the stream."""
    events = []
    with contextlib.suppress(ConnectionEnded, OSError):
        while True:
            events += stream.take(1)
    return events


def stop(server: Gatehouse) -> float:
    """Stop a server, which has to end well; returns how many seconds it took."""
    began = time.monotonic()
    assert server.stop() == 0
    return time.monotonic() - began


@in_ci_alone
def test_a_server_told_to_stop_ends_streams_that_wait_for_a_line(machine: Machine) -> None:
    machine.run(SUCCEEDS)
    with machine.writing() as pen, machine.stream(machine.last_id) as waiting:
        assert stop(machine.server) < END_SECONDS
        events = waiting.rest()
        assert outcomes(events) == ["failed"]
        pen.close()
        machine.server.start()
        with machine.stream(last_event_id=events[-1].id) as resumed:
            assert resumed.rest() == []
    prove(machine.server)


def test_a_server_told_to_stop_before_any_install_ends_the_streams_that_are_open(new_server: NewServer) -> None:
    with new_server() as server, Machine(server).stream() as reading, Machine(server).stream(7):
        assert stop(server) < END_SECONDS
        assert reading.rest() == []
        assert "Traceback" not in server.log
        assert '"level":"error"' not in server.log


def test_a_server_told_to_stop_with_streams_that_some_do_not_read_ends_in_time_and_tells_the_others(
    machine: Machine,
) -> None:
    before, count = machine.last_id, tries(50, elsewhere=25)
    with contextlib.ExitStack() as opened, machine.writing() as pen:
        stuck = [opened.enter_context(machine.stream(before, buffer=SMALL_BUFFER)) for _ in range(count // 5)]
        reading = [opened.enter_context(machine.stream(before)) for _ in range(count - len(stuck))]
        pen.lines(0, LINES, WIDTH)
        got = {stream: stream.take(LINES + 1) for stream in reading[:3]}
        # The others have all that sockets hold of it.
        machine.server.ask_to_stop()
        events = [got[stream] + stream.rest() for stream in reading[:3]]
        assert stop(machine.server) < END_SECONDS
        pen.close()
        machine.server.start()
    history = machine.history(before)
    assert outcomes(history) == ["failed"]
    assert history[-1].value["detail"]
    assert [line.rstrip(".") for line in logged(history)] == numbered(LINES)
    assert events == [history] * 3
    shown = machine.install()
    assert (shown["state"], shown["steps"][0]["status"], shown["lastEventId"]) == ("failed", "failed", history[-1].id)
    prove(machine.server)


@pytest.mark.parametrize("seed", range(tries(5, elsewhere=1)))
def test_after_a_kill_the_history_is_whole_and_the_verdict_says_what_happened(machine: Machine, seed: int) -> None:
    chance = random.Random(seed)
    before, count = machine.last_id, chance.randrange(300, 3_000)
    attempt = machine.install()["attempt"]
    read: list[Event] = []
    with machine.writing(("never", "true")) as pen, machine.stream(before) as stream:
        pen.lines(0, count)
        read += stream.take(chance.randrange(1, count))
        machine.server.kill()
        read += until_lost(stream)
        machine.server.start()
        # What outlived the server is ended.
        wait_for(lambda: not pen.is_read())
        shown = machine.ended()
        assert (shown["attempt"], shown["state"]) == (attempt + 1, "failed")
        assert [step["status"] for step in shown["steps"]] == ["failed", "waiting"]
    history = machine.history(before)
    assert history[: len(read)] == read
    assert [event.type for event in history[-2:]] == ["step", "verdict"]
    assert {event.value["detail"] for event in history[-2:]} == {shown["detail"]}
    lines = logged(history)
    assert lines == numbered(count)[: len(lines)]
    with machine.stream(last_event_id=read[-1].id) as resumed:
        assert read + resumed.rest() == history
    assert machine.run(SUCCEEDS)["attempt"] == attempt + 2
    again = machine.history(history[-1].id)
    assert [event.id for event in again] == list(range(history[-1].id + 1, history[-1].id + 4))
    assert outcomes(again) == ["succeeded"]
    prove(machine.server)


@in_ci_alone
def test_a_kill_between_two_attempts_changes_nothing(machine: Machine) -> None:
    machine.run(("fails", "false"))
    shown, history = machine.install(), machine.history()
    machine.server.kill()
    machine.server.start()
    assert (machine.install(), machine.history()) == (shown, history)


async def read_all(machine: Machine, count: int, after: int) -> list[bytes]:
    """Read a stream by so many clients at once, to the end of each."""
    context = ssl.create_default_context(cafile=machine.server.ca_file)
    request = message("GET", f"{EVENTS}?after={after}", machine.operator | {"Connection": "close"})

    async def read() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", machine.server.installer_port, ssl=context)
        writer.write(request)
        data = await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
        return data

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(read()) for _ in range(count)]
    return [task.result() for task in tasks]


def body(answer: bytes) -> bytes:
    """Join the chunks of a whole answer."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    pieces = []
    while not rest.startswith(b"0\r\n"):
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        pieces.append(rest[:length])
        rest = rest[length + 2 :]
    assert rest == b"0\r\n\r\n"
    return b"".join(pieces)


def bodies_without_comments(answers: list[bytes]) -> set[bytes]:
    return {
        body(answer).removeprefix(GREETING).replace(b"\n\n:\n\n", b"\n\n").removeprefix(b":\n\n") for answer in answers
    }


def test_of_many_readers_one_that_never_reads_holds_up_none_and_nothing_is_left_of_them(machine: Machine) -> None:
    server = machine.server
    if THOROUGH:
        # Nothing else is to count in what memory it takes.
        server.restart()
    first = machine.last_id
    with machine.writing() as pen:
        pen.lines(0, LINES, WIDTH)
    before, left = machine.last_id, beside_the_database(server)
    # What it has asked for is more than sockets hold.
    with machine.writing() as pen, machine.stream(first, buffer=SMALL_BUFFER):

        async def install() -> list[bytes]:
            reading = asyncio.create_task(read_all(machine, READERS - 1, before))
            await asyncio.to_thread(pen.lines, 0, 2_000, 100)
            pen.close()
            return await reading

        answers = asyncio.run(install())
        (given,) = bodies_without_comments(answers)
        assert machine.install()["state"] == "succeeded"
    assert given.count(b"\n\n") == machine.last_id - before
    with machine.connect() as wire:
        wire.write(message("GET", f"{EVENTS}?after={before}", machine.operator))
        assert wire.read_head().status == 200
        assert b"".join(iter(wire.read_chunk, b"")) == GREETING + given
    assert peak_memory(server) < MOST_KIBIBYTES
    wait_for(lambda: beside_the_database(server) <= left)


def test_readers_that_leave_leave_nothing_behind(machine: Machine) -> None:
    machine.run(SUCCEEDS)
    left, before = beside_the_database(machine.server), machine.last_id
    with machine.writing() as pen:
        running = beside_the_database(machine.server)
        for turn in range(tries(6, elsewhere=2)):
            pen.lines(turn * LINES, LINES, 1_000)
            with contextlib.ExitStack() as opened:
                streams: list[Stream] = [
                    opened.enter_context(machine.stream(before, buffer=SMALL_BUFFER if number % 2 else None))
                    for number in range(20)
                ]
                streams[0].take(100)
            wait_for(lambda: beside_the_database(machine.server) <= running)
    wait_for(lambda: beside_the_database(machine.server) <= left)


@in_ci_alone
def test_readers_miss_nothing_on_postgresql_either(new_server: NewServer, postgresql: Server) -> None:
    with on_postgresql(new_server, postgresql.create("install")) as server:
        machine = Machine(server)
        assert machine.configure().status == 200
        assert_readers_miss_nothing(machine, connections=100, at_a_time=25, seed=0)


def one(connection: psycopg.Connection, query: LiteralString) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


@in_ci_alone
def test_a_writer_that_commits_late_holds_up_the_ids_and_no_reader_passes_it(
    new_server: NewServer, postgresql: Server
) -> None:
    url = postgresql.create("install_late")
    with on_postgresql(new_server, url) as server:
        machine = Machine(server)
        assert machine.configure().status == 200
        with machine.writing() as pen, machine.stream() as stream, psycopg.connect(url) as other:
            assert [event.id for event in stream.take(1)] == [1]
            other.execute("UPDATE install_stream SET last_id = last_id + 1")
            pen.lines(0, 100)
            wait_for(lambda: one(other, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
            assert one(other, "SELECT max(id) FROM install_events") == 1
            other.rollback()
            events = stream.take(100)
            pen.close()
            events += stream.rest()
        assert [event.id for event in events] == list(range(2, 104))
        assert logged(events) == numbered(100)
        assert machine.history(1) == events
