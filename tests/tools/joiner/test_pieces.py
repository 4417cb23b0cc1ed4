from __future__ import annotations

from tools.joiner.pieces import LINE_CHARACTERS, Pieces


def lines(*chunks: bytes) -> list[str]:
    pieces = Pieces()
    return [line for chunk in chunks for line in pieces.feed(chunk)] + list(pieces.end())


def test_lines_end_with_lf_or_cr_lf() -> None:
    assert lines(b"one\n\ntwo\r", b"\nth\rree") == ["one", "", "two", "th\rree"]


def test_what_is_no_utf_8_is_replaced_and_what_is_cut_in_a_character_is_not() -> None:
    assert lines(b"a\xffb\n", b"\xc3", b"\xa9\n\xc3") == ["a\ufffdb", "é", "\ufffd"]


def test_a_long_line_becomes_several_and_loses_nothing() -> None:
    found = lines(b"x" * (LINE_CHARACTERS * 2 + 5), b"\ny\n")
    assert [len(line) for line in found] == [LINE_CHARACTERS, LINE_CHARACTERS, 5, 1]
