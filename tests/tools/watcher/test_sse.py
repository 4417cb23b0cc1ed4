from __future__ import annotations

from collections.abc import Iterable

import pytest

from tools.watcher import sse
from tools.watcher.sse import Event, Parser, TooLongError

STREAM = (
    "\ufeff: a comment\r\n"
    "retry: 2000\r"
    "\r\n"
    "id: 1\nevent: log\ndata: first\ndata:second\rdata:  third\n\n"
    "id: 2\r\nunknown: x\r\ndata\r\n\r\n"
    "data: é\U0001f600\u2028\u0085\x0b\x0c\x1c\r\r"
    ":\n\n"
    "event: lost\n\n"
    "id: a\0b\ndata: {}\n\n"
    "id\ndata: \ufeff\n\n"
    "data: without an end\n"
).encode()
EVENTS = [
    Event("log", "first\nsecond\n third", "1"),
    Event("message", "", "2"),
    Event("message", "é\U0001f600\u2028\u0085\x0b\x0c\x1c", "2"),
    Event("message", "{}", "2"),
    Event("message", "\ufeff", ""),
]


def parsed(pieces: Iterable[bytes]) -> list[Event]:
    parser = Parser()
    return [event for piece in pieces for event in parser.feed(piece)]


def test_events_are_made_of_lines_as_the_standard_says() -> None:
    assert parsed([STREAM]) == EVENTS


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_stream_may_be_cut_anywhere(size: int) -> None:
    assert parsed(STREAM[start : start + size] for start in range(0, len(STREAM), size)) == EVENTS


def test_each_place_of_a_single_cut_gives_the_same_events() -> None:
    for place in range(len(STREAM)):
        assert parsed([STREAM[:place], b"", STREAM[place:]]) == EVENTS, place


def test_bytes_that_are_no_utf_8_are_replaced_one_line_at_a_time() -> None:
    assert parsed([b"data: a\xe2\x82\ndata: \xffb\n\n"]) == [Event("message", "a\ufffd\n\ufffdb", "")]


@pytest.mark.parametrize(
    ("sent", "retry"),
    [
        (b"retry: 10\n", 10),
        (b"retry:0\n", 0),
        (b"retry: 10", None),
        (b"retry: 1.5\n", None),
        (b"retry: -1\n", None),
        (b"retry\n", None),
        ("retry: ١\n".encode(), None),
        (b"retry: " + b"9" * 5000 + b"\n", None),
        (b"retry: 10\nretry: x\n", 10),
    ],
)
def test_a_pause_is_asked_for_in_digits(sent: bytes, retry: int | None) -> None:
    parser = Parser()
    assert list(parser.feed(sent)) == []
    assert parser.retry == retry


def test_an_event_has_a_bound_in_one_line_and_in_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MOST_BYTES", 100)
    fits = b"data: " + b"x" * 94
    assert len(parsed([fits, b"\n\n"] * 3)) == 3
    for pieces in ([fits, b"x"], [b"data: 1234\n"] * 11, [b":" * 101]):
        with pytest.raises(TooLongError):
            parsed(pieces)
