from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator

import pytest

from handlers.gateway import outlet as module
from handlers.gateway.outlet import WAITING_PIECES, Outlet, outlet

# More than a pipe takes.
PIECE = "x" * 200_000 + "\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(writing)


def drain(reading: int, size: int) -> None:
    while size > 0:
        size -= len(os.read(reading, 1 << 20))


def test_lines_come_out_whole_and_in_their_order(pipe: tuple[int, int]) -> None:
    with outlet(pipe[1]) as log:
        for number in range(10):
            log.write(f"{number} \udcff\n")
            log.flush()
    assert os.read(pipe[0], 1000).decode() == "".join(f"{number} \\udcff\n" for number in range(10))
    os.close(pipe[0])


def test_a_reader_that_stops_holds_up_nobody_and_costs_bounded_memory(pipe: tuple[int, int]) -> None:
    log = Outlet(pipe[1])
    for _ in range(3 * WAITING_PIECES):
        log.write(PIECE)
    assert log._pieces.qsize() <= WAITING_PIECES
    drain(pipe[0], WAITING_PIECES * len(PIECE))
    log.close()
    os.close(pipe[0])


def test_a_reader_that_stops_does_not_keep_the_process(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.01)
    with outlet(pipe[1]) as log:
        log.write(PIECE)
    assert log._thread.daemon
    assert log._thread.is_alive()
    os.close(pipe[0])
    log._thread.join()


def test_a_reader_that_has_gone_fails_no_write(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    with outlet(pipe[1]) as log:
        log.write("first\n")
        log.write("second\n")
    assert log._thread not in threading.enumerate()


def test_log_records_take_the_same_way(pipe: tuple[int, int]) -> None:
    with outlet(pipe[1]) as log:
        record = logging.LogRecord("place", logging.WARNING, "file.py", 7, "word", (), None)
        logging.StreamHandler(log).handle(record)
    assert os.read(pipe[0], 100) == b"word\n"
    os.close(pipe[0])
