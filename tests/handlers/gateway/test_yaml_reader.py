from __future__ import annotations

from typing import Any

import pytest

from handlers.gateway.yaml_reader import (
    MAX_BYTES,
    MAX_LEVELS,
    MAX_PROBLEMS,
    Document,
    Fault,
    UnreadableError,
    read_document,
)

# What is done for each character and each that follows on it takes an hour with so many.
LONG = 120_000

EXPRESSIONS = """\
plain: a + bad
single: 'a + ''b'' + bad'
double: "a + bad"
escaped: "a \\u002b bad"
folded: >-
  a +

    bad
literal: |
    a +
      bad
flowing: a
  + bad
list:
  - {x: a + bad}
"""


def read(text: str) -> Document:
    return read_document(text.encode())


def problems(text: str) -> list[tuple[int, int, str]]:
    return [(*problem.place, problem.message) for problem in read(text).problems]


def unreadable(raw: bytes) -> tuple[int, int, str]:
    with pytest.raises(UnreadableError) as raised:
        read_document(raw)
    return (*raised.value.place, str(raised.value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T00:00:00Z", "2026-01-31T00:00:00Z"),
        ("12:30", "12:30"),
        ("1.2.3", "1.2.3"),
        ("y", "y"),
        ("event.data.caseId", "event.data.caseId"),
        ("'yes'", "yes"),
        ('"012"', "012"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("", None),
        ("0", 0),
        ("-17", -17),
        ("1.5", 1.5),
        ("1.0", 1),
        ("-0.0", 0),
        ("1e3", 1000),
        ("9007199254740991", 9007199254740991),
        ("[1, {a: b}]", [1, {"a": "b"}]),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars_are_read_as_json_spells_them_and_all_else_is_text(text: str, value: Any) -> None:
    document = read(f"a: {text}")
    assert repr(document.value) == repr({"a": value})
    assert document.problems == []


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "no", "on", "off", "Yes", "NO", "True", "FALSE", "Null", "~", ".inf", "-.Inf", ".NaN"),
        *("012", "00", "0x1F", "0o17", "0b1", "1_000", "+1", ".5", "5.", "1.e3"),
    ],
)
def test_what_readers_of_yaml_take_for_different_things_is_refused(text: str) -> None:
    [(line, column, message)] = problems(f"a: 1\nb: {text}")
    assert (line, column) == (2, 4)
    assert f"{text!r} is not the same to every reader" in message


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: 1\nb: 2\na: 3", 3, 1, "'a' stands here twice"),
        ("a: {b: 1, 'b': 2}", 1, 11, "'b' stands here twice"),
        ("a: &x 1", 1, 4, "anchors"),
        ("a: &x [1]", 1, 4, "anchors"),
        ("b: *x", 1, 4, "aliases"),
        ("a: !!str 1", 1, 4, "tags"),
        ("a: !x {b: 1}", 1, 4, "tags"),
        ("<<: {a: 1}", 1, 1, "merge keys"),
        ("1: a", 1, 1, "put it in quotes"),
        ("null: a", 1, 1, "put it in quotes"),
        ("? [a]\n: 1", 1, 3, "put it in quotes"),
        ("yes: 1", 1, 1, "not the same to every reader"),
        ("a: 9007199254740992", 1, 4, "beyond 2^53-1"),
        ("a: 1e999", 1, 4, "beyond 2^53-1"),
        ("a: 1e16", 1, 4, "beyond 2^53-1"),
        ("a: " + "9" * 5_000, 1, 4, "not the same to every reader"),
        ("%YAML 1.1\n---\na: 1", 1, 1, "directives"),
        ("%TAG ! tag:x,2000:\n---\na: 1", 1, 1, "directives"),
        ("a: 1\n---\nb: 1", 2, 1, "a second document"),
        ("", 1, 1, "the file is empty"),
        ("# only a comment", 1, 17, "the file is empty"),
    ],
)
def test_what_is_more_than_json_is_refused_where_it_stands(text: str, line: int, column: int, words: str) -> None:
    [found] = problems(text)
    assert found[:2] == (line, column)
    assert words in found[2]


def test_every_problem_is_told_in_one_go() -> None:
    text = "a: yes\na: [no, &x 1]\n1: 2\nb: {c: ~}\n"
    assert [found[:2] for found in problems(text)] == [(1, 4), (2, 1), (2, 5), (2, 9), (3, 1), (4, 8)]


@pytest.mark.parametrize(
    ("raw", "line", "column", "words"),
    [
        (b"a: [1, 2", 1, 9, "did not find expected"),
        (b"a:\n\tb: 1", 2, 1, "cannot start any token"),
        (b"a: b: c", 1, 5, "mapping values are not allowed"),
        (b'a: "\\ud800"', 1, 7, "invalid Unicode character escape"),
        ("é: \x01".encode(), 1, 4, "this character may not stand in YAML"),
        ("\ufeff\ufeffa: 1".encode(), 1, 1, "this character is not the same to every reader"),
        ("a: 1\n# é\u0085b: 1".encode(), 2, 4, "this character is not the same to every reader"),
        ("a: 'b\u2028c'".encode(), 1, 6, "this character is not the same to every reader"),
        ("a:\n  b: 1\n\ufeff  c: 1".encode(), 3, 1, "this character is not the same to every reader"),
        ("a: b\u2029".encode(), 1, 5, "this character is not the same to every reader"),
        (b"a: 1\nb: \xff", 2, 4, "not UTF-8"),
        (b"\xef\xbb\xbf" + "é\n: é".encode() + b"\xff", 2, 4, "not UTF-8"),
        ("a: 1".encode("utf-16"), 1, 1, "not UTF-8"),
        (b"a: 1\n" + b"#" * MAX_BYTES, 1, 1, "at most 262,144 bytes"),
        (b"[" * (MAX_LEVELS + 1) + b"]" * (MAX_LEVELS + 1), 1, MAX_LEVELS + 1, "at most 32 levels"),
        (b"- " * 5_000 + b"1", 1, 2 * MAX_LEVELS + 1, "at most 32 levels"),
        (b"{a: " * 2_000, 1, 4 * MAX_LEVELS + 1, "at most 32 levels"),
    ],
)
def test_what_is_not_yaml_is_refused_at_its_first_fault(raw: bytes, line: int, column: int, words: str) -> None:
    found = unreadable(raw)
    assert found[:2] == (line, column)
    assert words in found[2]


def test_a_file_may_have_all_its_bytes_and_levels() -> None:
    assert read_document(b"#" * (MAX_BYTES - 5) + b"\na: 1").value == {"a": 1}
    assert read("[" * MAX_LEVELS + "]" * MAX_LEVELS).problems == []


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    document = read_document(b"\xef\xbb\xbfa: yes")
    assert [tuple(problem.place) for problem in document.problems] == [(1, 4)]


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        (("plain",), 1, 12),
        (("single",), 2, 22),
        (("double",), 3, 14),
        (("escaped",), 4, 10),
        (("folded",), 8, 5),
        (("literal",), 11, 7),
        (("flowing",), 13, 5),
        (("list", 0, "x"), 15, 13),
    ],
)
def test_a_character_of_a_text_is_found_in_the_file(path: tuple[str | int, ...], line: int, column: int) -> None:
    document = read(EXPRESSIONS)
    text = document.value
    for part in path:
        text = text[part]
    assert document.place(Fault(path, "", text.index("bad"))) == (line, column)


def test_the_end_of_a_text_is_behind_its_last_character() -> None:
    document = read("a: 'x +'\nb: |\n  x +\n\n\nc: ''\n")
    ends = [document.place(Fault((name,), "", len(document.value[name]))) for name in "abc"]
    assert ends == [(1, 8), (3, 6), (6, 4)]


def test_a_fault_is_placed_at_its_value_its_name_or_what_should_have_it() -> None:
    document = read("a: 1\nsteps:\n  one:\n    - {x: 5}\n")
    assert document.place(Fault(("steps", "one", 0, "x"), "")) == (4, 11)
    assert document.place(Fault(("steps", "one", 0, "x"), "", key=True)) == (4, 8)
    assert document.place(Fault(("steps", "one", 0, "y"), "")) == (4, 7)
    assert document.place(Fault(("steps", "one", "z", 3), "", key=True)) == (3, 3)
    assert document.place(Fault((), "", key=True)) == (1, 1)
    assert document.place(Fault(("zzz",), "", key=True)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a: {b: [1, yes]}", ("a", "b", 1)),
        ("a: {b: 1, b: 2}", ("a", "b")),
        ("a: [{b: &x 1}]", ("a", 0, "b")),
        ("a: {<<: {b: 1}}", ("a",)),
        ("a: {1: 2}", ("a",)),
        ("a: 1\n---\nb: 1", ()),
        ("a: 1e999", ("a",)),
    ],
)
def test_a_problem_is_that_of_a_value(text: str, path: tuple[str | int, ...]) -> None:
    assert [problem.path for problem in read(text).problems] == [path]


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"a: {b: [1, 2", ("a", "b")),
        (b"a: 1\nb: c: d", ("b",)),
        (b"a:\n  - b: 1\n  - b: c: d", ("a", 1, "b")),
        (b"a:\n- b: 1\n- - c\n  - - d: e: f", ("a", 1, 1, 0, "d")),
        (b"a:\n\tb: 1", ("a",)),
        (b"# x: y\na: {b: c: d}\n", ("a",)),
        (b"a: {\nb: c: d}\n", ("a",)),
        (b"a:\n  b: 1\n  c: [\n", ("a", "c")),
        (b"a: \x01", ()),
        (b"a: \xff", ()),
        (b"a: " + b"[" * MAX_LEVELS, ("a", *(0,) * (MAX_LEVELS - 1))),
    ],
)
def test_where_reading_ends_the_value_is_told_as_far_as_it_is_known(raw: bytes, path: tuple[str | int, ...]) -> None:
    with pytest.raises(UnreadableError) as raised:
        read_document(raw)
    assert raised.value.path == path


def test_of_many_problems_the_first_are_told() -> None:
    document = read("[" + "no, " * 1_000 + "]")
    assert [problem.path for problem in document.problems] == [(index,) for index in range(MAX_PROBLEMS)]
    assert document.value == [None] * 1_000


def test_a_message_repeats_no_more_than_the_beginning_of_a_name() -> None:
    name = "n" * 1_000
    assert problems(f"{name}: 1\n{name}: 2") == [(2, 1, f"{name[:40]!r} stands here twice")]


@pytest.mark.parametrize("word", ["{}x", "{0}.{0}x", "0x{}x", ".{}ex"])
def test_a_long_word_is_looked_at_once(word: str) -> None:
    text = word.format("1" * LONG)
    assert read(f"a: {text}").value == {"a": text}


@pytest.mark.parametrize("line", ["{}", "a{}b", "- {}b"])
@pytest.mark.parametrize("letter", [" ", "a"])
def test_a_long_line_before_the_end_of_reading_is_looked_at_once(line: str, letter: str) -> None:
    with pytest.raises(UnreadableError):
        read_document(f"a: b\n{line.format(letter * LONG)}\nb: [".encode())
