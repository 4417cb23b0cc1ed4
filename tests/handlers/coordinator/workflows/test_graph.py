from __future__ import annotations

from typing import Any

import pytest

from handlers.coordinator.workflows.format import RESULT_MEMBERS
from handlers.coordinator.workflows.graph import Graph, check_graph

FINISH = {"type": "finish"}


def wait(target: str) -> dict[str, Any]:
    return {"type": "wait-until", "next": target}


def call(target: str) -> dict[str, Any]:
    return {"type": "call", "next": target}


def choose(*targets: str) -> dict[str, Any]:
    *cases, otherwise = targets
    return {"type": "choose", "cases": [{"next": target} for target in cases], "else": otherwise}


def graph(start: Any, **steps: Any) -> Graph:
    return check_graph({"start": start, "steps": steps})


def faults(start: Any, **steps: Any) -> list[tuple[str, str]]:
    return [(".".join(map(str, fault.path)), fault.message) for fault in graph(start, **steps).faults]


def set_before(found: Graph) -> dict[str, set[str]]:
    return {name: set(scope["steps"] or ()) for name, scope in found.scopes.items()}


def test_ways_that_part_and_meet_and_end_have_no_fault() -> None:
    assert faults("a", a=choose("b", "c"), b=wait("d"), c=choose("d", "e"), d=call("e"), e=FINISH) == []


@pytest.mark.parametrize(
    ("start", "steps", "expected"),
    [
        ("x", {"a": FINISH}, [("start", "there is no step x")]),
        (
            "a",
            {"a": wait("x"), "b": FINISH},
            [("steps.a.next", "there is no step x"), ("steps.b", "nothing leads to this step")],
        ),
        (
            "a",
            {"a": choose("x", "b", "y"), "b": FINISH},
            [("steps.a.cases.0.next", "there is no step x"), ("steps.a.else", "there is no step y")],
        ),
        (
            "a",
            {"a": FINISH, "b": wait("a"), "c": wait("b")},
            [("steps.b", "nothing leads to this step"), ("steps.c", "nothing leads to this step")],
        ),
        (
            "a",
            {"a": choose("a", "b"), "b": FINISH},
            [("steps.a.cases.0.next", "leads back to a: a workflow comes to an end")],
        ),
        (
            "a",
            {"a": wait("b"), "b": choose("a", "c"), "c": FINISH},
            [("steps.b.cases.0.next", "leads back to a: a workflow comes to an end")],
        ),
        (
            "a",
            {"a": wait("b"), "b": wait("a")},
            [("steps.b.next", "leads back to a: a workflow comes to an end"), ("steps", "no step finishes")],
        ),
        (
            "a",
            {"a": choose("b", "c"), "b": wait("b"), "c": choose("a", "d"), "d": FINISH},
            [
                ("steps.b.next", "leads back to b: a workflow comes to an end"),
                ("steps.c.cases.0.next", "leads back to a: a workflow comes to an end"),
            ],
        ),
        ("a", {"a": wait("b"), "b": wait("c"), "c": {"type": "call"}}, [("steps", "no step finishes")]),
    ],
)
def test_each_way_that_leads_nowhere_or_back_is_told(start: str, steps: dict[str, Any], expected: Any) -> None:
    assert faults(start, **steps) == expected


def test_a_long_way_and_many_ways_take_no_recursion_and_no_repetition() -> None:
    ladder = {f"s{number}": choose(f"s{number + 1}", f"s{number + 1}") for number in range(2_000)}
    assert faults("s0", **ladder, s2000=FINISH) == []


def test_only_what_every_way_has_set_can_be_read() -> None:
    found = graph(
        "first",
        first=call("fork"),
        fork=choose("left", "right"),
        left=call("both"),
        right=wait("more"),
        more=call("both"),
        both=wait("end"),
        end=FINISH,
    )
    assert set_before(found) == {
        "first": set(),
        "fork": {"first"},
        "left": {"first"},
        "right": {"first"},
        "more": {"first", "right"},
        "both": {"first"},
        "end": {"first", "both"},
    }


def test_a_way_that_leaves_a_step_out_takes_its_result_away() -> None:
    found = graph("a", a=choose("b", "c"), b=call("c"), c=FINISH)
    assert set_before(found)["c"] == set()


def test_each_type_of_step_gives_its_own_result() -> None:
    scope = graph("a", a=call("b"), b=wait("c"), c=choose("d", "d"), d=FINISH).scopes["d"]
    assert scope["steps"] == {"a": RESULT_MEMBERS["call"], "b": RESULT_MEMBERS["wait-until"]}
    assert set(scope) == {"input", "run", "steps"}


def test_where_the_ways_are_not_clear_every_result_counts_as_set() -> None:
    assert set_before(graph("a", a=call("b"), b=call("a"))) == {"a": {"a", "b"}, "b": {"a", "b"}}
    assert set_before(graph("a", a=FINISH, b=call("c"), c=FINISH)) == {"a": set(), "b": {"b"}, "c": {"b"}}


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {"start": 5, "steps": 5},
        {"start": "a", "steps": {"a": 5, "b": {}, "c": {"type": 5, "next": 5}, "d": {"type": "choose", "cases": 5}}},
        {"start": ["a"], "steps": {"a": {"type": "choose", "cases": [5, {"next": []}]}}},
    ],
)
def test_what_is_malformed_is_left_to_the_check_of_the_format(definition: dict[str, Any]) -> None:
    assert all("finishes" in fault.message for fault in check_graph(definition).faults)
