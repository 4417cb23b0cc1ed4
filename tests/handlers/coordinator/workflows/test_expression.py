from __future__ import annotations

import json
import warnings
from typing import Any

import cel
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from handlers.coordinator.workflows.cel_source import RefusedSourceError
from handlers.coordinator.workflows.expression import (
    Budget,
    Cel,
    Expression,
    MappingError,
    PlainPath,
    compile_expression,
)
from handlers.coordinator.workflows.values import UnfitValueError, canonical_text, plain
from tests.handlers.coordinator.workflows.building import EVENT_SCOPE, run_child
from tests.support.effort import tries

SEED = 20261130
EVENT: dict[str, Any] = {
    "id": "e-1",
    "time": "2026-01-02T03:04:05.678Z",
    "data": {
        "n": 5,
        "f": 1.5,
        "text": "some text",
        "none": None,
        "items": [{"id": number, "owner": "ab"[number % 2]} for number in range(6)],
        "map": {"a-b": 1, "in": 2},
        "owner": "b",
    },
}

NAMES = ["a", "b", "0", "x-y"]
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)
parts = st.lists(st.sampled_from([".a", ".b", "['a']", '["x-y"]', "['0']", "[0]", "[1]"]), max_size=4)


def compiled(source: str) -> Expression:
    return compile_expression(source, EVENT_SCOPE)


def value(source: str, event: Any = EVENT) -> Any:
    return compiled(source).evaluate({"event": event}, Budget())


def fault(source: str, event: Any = EVENT) -> str:
    with pytest.raises(MappingError) as raised:
        value(source, event)
    return str(raised.value)


def by_the_library(source: str, event: Any) -> str:
    try:
        return canonical_text(plain(cel.evaluate(source, {"event": event})))
    except (LookupError, TypeError, RuntimeError, ArithmeticError, ValueError, UnfitValueError):
        return "fault"


def by_us(source: str, event: Any) -> str:
    try:
        return canonical_text(value(source, event))
    except MappingError:
        return "fault"


@seed(SEED)
@settings(max_examples=tries(1_000, elsewhere=150), database=None, deadline=None)
@given(documents, parts)
def test_a_plain_path_means_what_it_means_in_cel(document: Any, path: list[str]) -> None:
    source = "event.data" + "".join(path)
    assert isinstance(compiled(source), PlainPath)
    assert by_us(source, {"data": document}) == by_the_library(source, {"data": document})


@pytest.mark.parametrize(
    "template",
    [
        "has({}) ? {} : 'none'",
        "has({}.a) && {}.a == 1",
        "{} == event.data.a",
        "[{}, {}][0]",
        "true || {}",
        "{}.size() > 1",
        "[1, 2].map(x, {{'x': x, 'v': {}}})",
        "[event.data].map(x, x == {})",
    ],
)
@seed(SEED)
@settings(max_examples=tries(200, elsewhere=40), database=None, deadline=None)
@given(document=documents, path=parts)
def test_an_expression_over_the_values_of_its_paths_means_the_same(
    template: str, document: Any, path: list[str]
) -> None:
    source = template.replace("{}", "event.data" + "".join(path)).replace("{{", "{").replace("}}", "}")
    try:
        compiled(source)
    except RefusedSourceError:
        with pytest.raises(ValueError, match="Failed to parse"):
            cel.compile(source)
        return
    assert by_us(source, {"data": document}) == by_the_library(source, {"data": document})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("event.data.n + 1", 6),
        ("event.data.f * 2.0", 3),
        ("double(event.data.n) / 2.0", 2.5),
        ("string(event.data.n) + ' of ' + event.data.text", "5 of some text"),
        ("event.data.n > 3 ? 'many' : 'few'", "many"),
        ("event.data.none == null", True),
        ("has(event.data.none)", True),
        ("has(event.data.nothing) ? event.data.nothing : 'none'", "none"),
        ("false && event.data.nothing", False),
        ("'a-b' in event.data.map", True),
        ("event.data.items[event.data.n].id", 5),
        ("event.data.items.filter(x, x.owner == event.data.owner).size()", 3),
        ("event.data.items.map(x, x.id > 3, {'i': x.id, 'of': event.id})[1]", {"i": 5, "of": "e-1"}),
        ("event.data.items.exists_one(x, x.id == 2) && event.data.items.all(y, y.id < 9)", True),
        ("[timestamp(event.time) + duration('36h'), {'n': 2.5}]", ["2026-01-03T15:04:05.678Z", {"n": 2.5}]),
        ("timestamp(event.time).getHours()", 3),
        ("event.data.text.startsWith('some') && event.data.text.contains('e t')", True),
        ("!event.data.text.endsWith('x')", True),
        ("event.data.map['in']", 2),
        ("1 in [1, 2] // a comment", True),
    ],
)
def test_an_expression_gives_plain_json(source: str, expected: Any) -> None:
    assert canonical_text(value(source)) == canonical_text(expected)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("event.data.nothing", "a member is missing"),
        ("event.data.items[6]", "an index is out of range"),
        ("event.data.text[0]", "not of the type"),
        ("event.data.items['0']", "not of the type"),
        ("event.data.map[0]", "a member is missing"),
        ("event.data.none.x", "not of the type"),
        ("event.data.n.x", "not of the type"),
        ("event.data.nothing + 1", "a member is missing"),
        ("has(event.data.nothing.x)", "a member is missing"),
        ("event.data.items.map(x, x.nothing)", "a member is missing"),
        ("event.data.items[event.data.n + 1]", "an index is out of range"),
        ("event.data.n + event.data.f", "not of the type"),
        ("event.data.n < 'a'", "not of the type"),
        ("event.data.n ? 1 : 2", "not of the type"),
        ("event.data.n / 0", "division by zero"),
        ("event.data.n % 0", "division by zero"),
        ("9223372036854775807 + event.data.n", "out of range"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('9h')", "out of range"),
        ("timestamp(event.data.text)", "does not take what it is given"),
        ("duration(event.data.text)", "does not take what it is given"),
        ("string(event.data.items)", "does not take what it is given"),
        ("event.data.map.map(k, k)", "an object where a list is gone through"),
        ("event.data.map.exists(k, k == 'in')", "an object where a list is gone through"),
        ("event.data.text.all(k, true)", "not of the type"),
        ("9007199254740992", "beyond 2^53-1"),
        ("event.data.n * 9007199254740991", "beyond 2^53-1"),
        ("double('NaN')", "beyond 2^53-1"),
        ("1.0 / 0.0", "beyond 2^53-1"),
        ("{1: 'a'}", "whose name is not text"),
        ("duration('1h')", "no JSON form"),
        ("timestamp('0001-01-01T00:00:00+23:00')", "years 0001 to 9999"),
    ],
)
def test_every_fault_of_evaluation_is_one_exception_that_repeats_no_value(source: str, words: str) -> None:
    told = fault(source)
    assert words in told
    assert "some text" not in told
    assert told.startswith(source)


def test_a_fault_does_not_repeat_a_key_that_came_with_the_event() -> None:
    assert "secret" not in fault("event.data[event.id]", {"id": "secret", "data": {}}).replace(
        "event.data[event.id]", ""
    )


def test_a_panic_of_the_library_is_the_same_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    class Program:
        def execute(self, _variables: object) -> object:
            raise PanicException("the value some text")

    expression = compiled("event.data.n + 1")
    assert isinstance(expression, Cel)
    broken = Cel(expression.source, Program(), expression.read, expression.levels)
    with pytest.raises(MappingError) as raised:
        broken.evaluate({"event": EVENT}, Budget())
    assert "some text" not in str(raised.value)

    def interrupted(_self: object, _variables: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Program, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        broken.evaluate({"event": EVENT}, Budget())


def test_a_leap_second_is_the_second_before_it() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "ignored leap-second", UserWarning)
        assert value("timestamp('2016-12-31T23:59:60Z')") == "2016-12-31T23:59:59.000Z"


@pytest.mark.parametrize(
    ("source", "offset", "words"),
    [
        ("event.data.n +", 14, "mismatched input"),
        ("event.data.n ++ 1", 14, "extraneous input '+'"),
        ("'é\U0001f600' +\n event.id *", 18, "mismatched input"),
        ("event.data.in", 11, "no viable alternative"),
        ("has(event)", 4, "invalid argument to has() macro"),
        ("has(event['id'])", 9, "invalid argument to has() macro"),
        ("9223372036854775808", 0, "invalid int literal"),
        (r"'\q'", 0, "token recognition error"),
        ("", 0, "mismatched input"),
        ("event.data event.id", 11, "mismatched input"),
        ("'a' 'b'", 4, "extraneous input"),
    ],
)
def test_what_is_not_cel_is_refused_at_its_character(source: str, offset: int, words: str) -> None:
    with pytest.raises(RefusedSourceError) as refused:
        compiled(source)
    assert refused.value.fault.offset == offset
    assert words in refused.value.fault.message
    assert "expecting" not in refused.value.fault.message


@pytest.mark.parametrize(
    ("variables", "functions"), [(["_0", "_1"], []), (["_0", "x"], []), (["_0"], ["matches"]), (["event"], [])]
)
def test_what_the_library_reads_otherwise_than_we_do_is_refused(
    monkeypatch: pytest.MonkeyPatch, variables: list[str], functions: list[str]
) -> None:
    class Program:
        def variables(self) -> list[str]:
            return variables

        def functions(self) -> list[str]:
            return functions

    monkeypatch.setattr(cel, "compile", lambda _source: Program())
    with pytest.raises(RefusedSourceError, match="in one way only"):
        compiled("event.id + 'a'")


def test_a_result_may_not_have_more_levels_than_are_left() -> None:
    activation: dict[str, Any] = {"event": {"data": [[[]]]}}
    for source in ("event.data", "event.data + []"):
        assert compile_expression(source, EVENT_SCOPE, 3).evaluate(activation, Budget()) == [[[]]]
        with pytest.raises(MappingError, match="too many levels"):
            compile_expression(source, EVENT_SCOPE, 2).evaluate(activation, Budget())


def test_large_values_are_refused_by_what_is_done_with_them() -> None:
    large = {"data": {"xs": list(range(5_000)), "s": "x" * 60_000, "n": 1}}
    assert value("event.data.n + 1", large) == 2
    assert value("event.data.xs.exists(x, x == 4999)", large) is True
    assert value("size(event.data.xs)", large) == 5_000
    for source in (
        "event.data.xs.map(x, x)",
        "event.data.xs.map(x, event.data)",
        "event.data.xs.all(x, x in event.data.xs)",
    ):
        assert "too large for what is done with it" in fault(source, large)


def test_a_budget_is_spent_by_all_expressions_of_a_mapping_together() -> None:
    large = {"event": {"data": ["x" * 640] * 10_000}}
    budget = Budget()
    expression = compiled("event.data")
    for _ in range(10):
        expression.evaluate(large, budget)
    with pytest.raises(MappingError, match="too large for what is done with it"):
        [expression.evaluate(large, budget) for _ in range(10)]


HOSTILE_SOURCES = {
    "50,000 terms": "'1' + '+1' * 50_000",
    "a long chain of members": "'event' + '.a' * 50_000",
    "a long chain of indexes": "'event' + '[0]' * 50_000",
    "a long chain of calls": "'event' + '.size()' * 50_000",
    "deep parentheses": "'(' * 10_000 + '1' + ')' * 10_000",
    "deep lists": "'[' * 900 + ']' * 900",
    "deep maps": "'{1:' * 500 + '1' + '}' * 500",
    "deep calls": "'string(' * 250 + '1' + ')' * 250",
    "deep indexes": "'event[' * 300 + '0' + ']' * 300",
    "many negations": "'!' * 2_000 + 'true'",
    "many choices": "'true?1:' * 280 + '1'",
    "nested macros": "'[1].map(x,' * 90 + '1' + ')' * 90",
    "macros over macros": "'[1]' + '.map(x,[x,x])' * 100",
    "a macro hidden in a raw string": "\"r'\\\\' + [1].map(x, [1].map(y, y)) + 'b'\"",
    "a pattern that takes long": "\"event.id.matches('(a{1000}){1000}')\"",
}


@pytest.mark.parametrize("name", HOSTILE_SOURCES)
def test_a_hostile_source_is_refused_before_the_library_can_end_the_process(name: str) -> None:
    child = run_child(
        f"""
from handlers.coordinator.workflows.cel_source import RefusedSourceError
from handlers.coordinator.workflows.expression import compile_expression
try:
    compile_expression({HOSTILE_SOURCES[name]}, {EVENT_SCOPE!r})
except RefusedSourceError as error:
    print("refused:", error)
"""
    )
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.startswith("refused:")


AT_THE_BOUNDS = {
    "terms": "'+'.join(['event.data.n'] * 60)",
    "members": "'event' + '.data' * 199",
    "negations": "'!' * 399 + 'true'",
    "choices": "'true?1:' * 20 + '1'",
    "brackets": "'(' * 12 + 'event.data.n' + ')' * 12",
    "a string that grows": "'+'.join(['event.data.s'] * 60)",
    "a list that grows": "'+'.join(['event.data.xs'] * 60)",
    "a map of everything": "'{' + ','.join(f\"'{i}': event\" for i in range(90)) + '}'",
    "macros over everything": "'[' + ','.join(['event.data.xs.map(x, event)'] * 8) + ']'",
    "a macro that multiplies": "'event.data.xs.map(x, [x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x])'",
    "a macro that compares": "'event.data.xs.all(x, event == event && event.data == event.data)'",
    "a macro over a literal": "'[' + '1,' * 150 + '1].map(x, event)'",
    "a filter of everything": "'event.data.xs.filter(x, true)'",
}


@pytest.mark.parametrize("shape", ["wide", "many", "deep", "bottomless"])
def test_whatever_is_within_the_bounds_ends_in_a_value_or_a_fault(shape: str) -> None:
    sources = ", ".join(f"{name!r}: {source}" for name, source in AT_THE_BOUNDS.items())
    child = run_child(
        f"""
from handlers.coordinator.workflows.expression import Budget, MappingError, compile_expression
deep = lambda levels: [deep(levels - 1)] if levels else 1
bottomless = 1
for _ in range(10_000):
    bottomless = [bottomless]
xs = {{"wide": list(range(20_000)), "many": [{{"a": "b"}}] * 9_000, "deep": [deep(50)] * 900, "bottomless": bottomless}}
event = {{"id": "e", "time": "", "data": {{"n": 1, "s": "x" * 60_000, "xs": xs[{shape!r}]}}}}
for name, source in {{{sources}}}.items():
    expression = compile_expression(source, {EVENT_SCOPE!r})
    try:
        expression.evaluate({{"event": event}}, Budget())
    except MappingError:
        pass
    print(name, flush=True)
"""
    )
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.splitlines() == list(AT_THE_BOUNDS)


def test_a_body_that_came_as_json_is_evaluated_as_it_came() -> None:
    event = json.loads('{"id": "\\u00e9\\ud83d\\ude00", "data": {"big": 9007199254740991, "small": 1e-7}}')
    assert value("[event.id, event.data.big, event.data.small]", event) == ["é\U0001f600", 2**53 - 1, 1e-7]
    assert "beyond 2^53-1" in fault("event.data.big", {"id": "", "data": {"big": 2**53}})
