from __future__ import annotations

import pytest

from handlers.coordinator.workflows.cel_source import (
    MAX_BRACKETS,
    MAX_MACROS,
    MAX_SOURCE_BYTES,
    MAX_TOKENS,
    RefusedSourceError,
    Scope,
    SourceFault,
    read_source,
)

SCOPE: Scope = {"event": {"data": None, "id": None}, "input": None, "steps": {"ask": {"status": None, "body": None}}}


def fault(source: str) -> SourceFault:
    with pytest.raises(RefusedSourceError) as refused:
        read_source(source, SCOPE)
    return refused.value.fault


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("event", ("event",)),
        ("event.data.caseId", ("event", "data", "caseId")),
        (" event . data [ 0 ]\n.x // why", ("event", "data", 0, "x")),
        ("""event["data"]['a-b'][""]""", ("event", "data", "a-b", "")),
        ("steps['ask'].body.size", ("steps", "ask", "body", "size")),
        ("input.map", ("input", "map")),
        ("input.has.filter", ("input", "has", "filter")),
    ],
)
def test_a_plain_path_is_read_without_cel(source: str, path: tuple[str | int, ...]) -> None:
    assert read_source(source, SCOPE).path == path


@pytest.mark.parametrize(
    ("source", "text", "paths"),
    [
        ("event.data.a + event.data.b", "_0 + _1", ["event.data.a", "event.data.b"]),
        ("event.id == event.id", "_0 == _0", ["event.id"]),
        ("has(event.data.a) && event.data.a", "_0 && _1", ["has event.data.a", "event.data.a"]),
        ("event.data.items.filter(x, x.id == event.id)", "_0.filter(x, x.id == _1)", ["event.data.items", "event.id"]),
        ("event.data.items[input.n].name", "_0[_1].name", ["event.data.items", "input.n"]),
        ("event.data[-1]", "_0[-1]", ["event.data"]),
        ("event.data[0x1]", "_0[0x1]", ["event.data"]),
        (r"event.data['a\n']", r"_0['a\n']", ["event.data"]),
        ("event.id.size()", "_0.size()", ["event.id"]),
        ("'event.id' + event.id", "'event.id' + _0", ["event.id"]),
        ("input.xs.map(x, has(x.a)) == [has(input.x.a)]", "_0.map(x, has(x.a)) == [_1]", ["input.xs", "has input.x.a"]),
        ('{\'event\': event.id, """a\'b""": 1}', '{\'event\': _0, """a\'b""": 1}', ["event.id"]),
        ("input.a in {input.b: 1}", "_0 in {_1: 1}", ["input.a", "input.b"]),
        ("true ? null : false", "true ? null : false", []),
    ],
)
def test_paths_inside_an_expression_become_variables(source: str, text: str, paths: list[str]) -> None:
    read = read_source(source, SCOPE)
    found = ["has " * reference.tests + ".".join(map(str, reference.path)) for reference in read.references]
    assert (read.text, found, read.path) == (text, paths, None)


@pytest.mark.parametrize(
    ("source", "offset", "words"),
    [
        ("evnt.data", 0, "'evnt' is not known here; event, input, steps may be used"),
        ("1 + event.dta", 4, "event has no member 'dta'; it has data, id"),
        ("event[0]", 0, "event has no member 0"),
        ("'a' + hello", 6, "'hello' is not known here"),
        ("steps.tell.status", 0, "step 'tell' gives nothing here"),
        ("steps.ask.code", 0, "steps.ask has no member 'code'"),
        ("size(steps)", 5, "read by the name of a step"),
        ("steps[input.name]", 0, "read by the name of a step"),
        ("{a: 1}", 1, "'a' is not known here"),
        ("has", 0, "'has' is not known here"),
        ("input.xs.map(x, y)", 16, "'y' is not known here"),
        ("input.xs.map(x, x) == x", 22, "'x' is not known here"),
        ("x.map(x, x)", 0, "'x' is not known here"),
    ],
)
def test_what_is_not_known_at_a_place_is_refused_where_it_stands(source: str, offset: int, words: str) -> None:
    assert fault(source).offset == offset
    assert words in fault(source).message


@pytest.mark.parametrize(
    ("source", "offset", "words"),
    [
        ("input.matches('a')", 6, "matches() is not known"),
        ("matches(input, 'a')", 0, "matches() is not known"),
        ("type(1)", 0, "type() is not known"),
        ("input.has(x)", 6, "has() is not known"),
        ("'a'.string()", 4, "string() is not known"),
        ("cel.bind(x, 1, x)", 4, "bind() is not known"),
        ("Money{units: 1}", 0, "messages"),
        (".event", 0, "a dot follows a value"),
        ("(.event)", 1, "a dot follows a value"),
        ("1 + b'a'", 4, "no prefix"),
        ("r'a'", 0, "no prefix"),
        ('R"""a"""', 0, "no prefix"),
        ("1u", 0, "unsigned"),
        ("0xFFU", 0, "unsigned"),
        ("input.`a`", 6, "begins nothing"),
        ("input\u00a0+ 1", 5, "begins nothing"),
        ("é", 0, "begins nothing"),
        ("'a", 0, "begins nothing"),
        ('1 + "a', 4, "begins nothing"),
        ("(1", 0, "'(' is not closed"),
        ("1]", 1, "']' closes nothing"),
        ("(1]", 2, "']' closes nothing"),
        ("input.xs.map(x)", 9, "wrong number of arguments"),
        ("input.xs.map()", 9, "wrong number of arguments"),
        ("input.xs.all(x, [1, 2], f)", 9, "wrong number of arguments"),
        ("input.xs.map(x.y, 1)", 13, "begins with a letter"),
        ("input.xs.map(1, 1)", 13, "begins with a letter"),
        ("input.xs.map(_0, _0)", 13, "begins with a letter"),
    ],
)
def test_what_is_not_ours_is_refused_where_it_stands(source: str, offset: int, words: str) -> None:
    assert fault(source).offset == offset
    assert words in fault(source).message


@pytest.mark.parametrize(
    "source",
    [
        "input.xs.map(x, input.ys.map(y, y))",
        "input.xs.map(x, input.ys.exists(y, y == x))",
        "[input.xs.map(x, x)].map(y, y)",
        "[1, [2].all(x, x)].exists(y, y)",
    ],
)
def test_no_macro_stands_inside_another_or_before_it(source: str) -> None:
    assert "inside or before another macro" in fault(source).message


@pytest.mark.parametrize(
    ("source", "offset"),
    [
        ("input.xs.filter(x, true).map(x, x)", 25),
        ("input.xs.map(x, x)[0].map(y, y)", 22),
        ("(input.xs + [1]).map(y, y)", 17),
        ("(true ? input.xs : []).all(y, y)", 23),
        ("[input.xs][0].a.map(y, y)", 16),
        ("{'a': input.xs}.map(y, y)", 16),
        ("{'a': input.xs}['a'].map(y, y)", 21),
        ("size(input.xs).map(y, y)", 15),
        ("input.xs[input.n].map(y, y)", 18),
    ],
)
def test_a_macro_goes_through_a_plain_path_or_a_list_literal_alone(source: str, offset: int) -> None:
    assert fault(source).offset == offset
    assert "goes through a plain path or a list in brackets" in fault(source).message


@pytest.mark.parametrize(
    "source",
    [
        "input.xs.map(x, x > 1, x)",
        "input.xs.map(x, x) + input.ys.map(x, x)",
        "size(input.xs.filter(x, x)) > 1 && input.xs.exists_one(x, x)",
        "{'a': input.xs.map(x, {'b': [x, event.id]})}",
        "input.xs.map(x, x)[0].a.size()",
        "[1, input.n].all(x, x > 0) && input['xs'][0].exists(x, x)",
    ],
)
def test_macros_may_stand_side_by_side(source: str) -> None:
    assert read_source(source, SCOPE).macros


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("'" + "a" * (MAX_SOURCE_BYTES - 2) + "'", "'" + "a" * (MAX_SOURCE_BYTES - 1) + "'"),
        ("'" + "é" * (MAX_SOURCE_BYTES // 2 - 1) + "'", "'" + "é" * (MAX_SOURCE_BYTES // 2) + "'"),
        ("1" + "+1" * ((MAX_TOKENS - 1) // 2), "1" + "+1" * (MAX_TOKENS // 2)),
        ("(" * MAX_BRACKETS + "1" + ")" * MAX_BRACKETS, "(" * (MAX_BRACKETS + 1) + "1" + ")" * (MAX_BRACKETS + 1)),
        ("[" + "[1].all(x,x)," * MAX_MACROS + "1]", "[" + "[1].all(x,x)," * (MAX_MACROS + 1) + "1]"),
    ],
)
def test_each_bound_holds_to_the_last_unit(good: str, bad: str) -> None:
    assert read_source(good, SCOPE).path is None
    assert "at most" in fault(bad).message


def test_the_parts_count_what_costs() -> None:
    read = read_source("size(event.data.xs.map(x, x.n > 1, {'id': event.id, 'x': x})) + 1", SCOPE)
    [macro] = read.macros
    assert (macro.references, macro.uses, macro.collects, macro.target) == (("_1",), 3, True, "_0")
    assert (read.outside.references, read.outside.collects) == (("_0",), False)
    assert read.outside.tokens < macro.tokens
