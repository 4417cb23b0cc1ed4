from __future__ import annotations

import tracemalloc
from typing import Final

import pytest

from handlers.installer.lines import LINE_BYTES, Lines

BOUND: Final = LINE_BYTES


def lines(*chunks: bytes) -> list[str]:
    made = Lines()
    return [line for chunk in chunks for line in made.feed(chunk)] + list(made.end())


def test_lf_ends_a_line_and_all_else_stays() -> None:
    assert lines(b"one\n\ntw", b"o\r\n\0three\rfour\xe2\x80\xa8\n") == ["one", "", "two\r", "\0three\rfour\u2028"]


def test_a_last_line_without_an_end_counts() -> None:
    assert lines(b"one\ntwo") == ["one", "two"]
    assert lines(b"one\n") == ["one"]
    assert lines() == []


def test_what_is_no_utf_8_is_replaced_and_what_comes_in_pieces_is_not() -> None:
    assert lines(b"a\xffb\n\xc3", b"\xa9\n\xc3\n\xa9") == ["a\ufffdb", "é", "\ufffd", "\ufffd"]


@pytest.mark.parametrize("size", [BOUND - 1, BOUND])
def test_a_line_within_the_bound_is_whole(size: int) -> None:
    assert lines(b"x" * size + b"\n") == ["x" * size]


@pytest.mark.parametrize(("chunk", "more"), [(BOUND + 1, 1), (70_000, 4_464), (1_000, 34_464)])
def test_a_longer_one_is_cut_and_says_how_much_is_missing(chunk: int, more: int) -> None:
    size = BOUND + more
    chunks = [b"x" * min(chunk, size - start) for start in range(0, size, chunk)]
    assert lines(*chunks, b"\nnext\n") == ["x" * BOUND + f" [cut: {more} more bytes]", "next"]


@pytest.mark.parametrize("before", range(1, 7))
def test_no_character_is_cut_in_two(before: int) -> None:
    whole, _, told = lines(b"x" * (BOUND - before) + "\U0001f600".encode() + b"y" * 10)[0].partition(" [cut: ")
    cut = before if before < 4 else 0
    assert whole.encode() == (b"x" * (BOUND - before) + "\U0001f600yyyy".encode())[: BOUND - cut]
    assert told == f"{10 + 4 - before + cut} more bytes]"


def test_bytes_that_only_look_like_a_character_are_cut_at_the_bound() -> None:
    assert lines(b"\x80" * (BOUND + 2)) == ["\ufffd" * BOUND + " [cut: 2 more bytes]"]


def test_a_line_without_an_end_takes_no_more_memory_than_what_is_kept_of_it() -> None:
    made, chunk = Lines(), b"x" * BOUND
    tracemalloc.start()
    try:
        for _ in range(160):
            assert list(made.feed(chunk)) == []
        assert tracemalloc.get_traced_memory()[1] < 4 * BOUND
    finally:
        tracemalloc.stop()
    assert list(made.end()) == ["x" * BOUND + f" [cut: {159 * BOUND} more bytes]"]
