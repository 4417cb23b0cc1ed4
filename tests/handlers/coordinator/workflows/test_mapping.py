from __future__ import annotations

from typing import Any

import pytest

from handlers.coordinator.workflows.expression import MappingError
from handlers.coordinator.workflows.mapping import (
    MAX_EXPRESSIONS,
    MAX_LEVELS,
    RefusedMappingError,
    compile_mapping,
)
from tests.handlers.coordinator.workflows.building import EVENT_SCOPE

EVENT = {"id": "e-1", "time": "2026-01-02T03:04:05Z", "data": {"caseId": "c-1", "xs": [1, [2]]}}


def evaluated(node: Any, event: Any = EVENT) -> Any:
    return compile_mapping(node, EVENT_SCOPE).evaluate({"event": event})


def nested(node: Any, levels: int) -> Any:
    for _ in range(levels):
        node = [node]
    return node


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("event.data.caseId", "c-1"),
        ("'event.data.caseId'", "event.data.caseId"),
        (
            {"case": "event.data.caseId", "n": 5, "yes": True, "none": None},
            {"case": "c-1", "n": 5, "yes": True, "none": None},
        ),
        (["event.id + '!'", ["event.data.xs"]], ["e-1!", [[1, [2]]]]),
        ({"event.id": "event.id"}, {"event.id": "e-1"}),
        ({}, {}),
        (2.0, 2),
    ],
)
def test_each_text_is_an_expression_and_all_else_stands_for_itself(node: Any, expected: Any) -> None:
    assert repr(evaluated(node)) == repr(expected)


def test_a_mapping_keeps_its_source_and_can_be_used_again() -> None:
    mapping = compile_mapping({"a": ["event.id"]}, EVENT_SCOPE)
    assert mapping.source == {"a": ["event.id"]}
    first, second = (mapping.evaluate({"event": {**EVENT, "id": name}}) for name in "ab")
    assert (first, second) == ({"a": ["a"]}, {"a": ["b"]})


def test_what_comes_out_does_not_hang_together_with_what_went_in() -> None:
    evaluated("event.data.xs").append(3)
    assert EVENT["data"] == {"caseId": "c-1", "xs": [1, [2]]}


def test_one_expression_without_a_value_leaves_the_mapping_without_one() -> None:
    with pytest.raises(MappingError, match=r"event\.data\.nothing: a member is missing"):
        evaluated({"a": "event.id", "b": ["event.data.nothing"]})


def test_all_faults_are_told_with_their_places() -> None:
    with pytest.raises(RefusedMappingError) as refused:
        compile_mapping(
            {"a": "evnt", "b": [1, "event.id +"], "c": "event.id", "d": 2**60, "e": float("nan")}, EVENT_SCOPE
        )
    assert [(fault.path, fault.offset) for fault in refused.value.faults] == [
        (("a",), 0),
        (("b", 1), 10),
        (("d",), None),
        (("e",), None),
    ]


def test_a_mapping_is_bounded_in_levels_and_expressions() -> None:
    assert evaluated(nested("event.id", MAX_LEVELS)) == nested("e-1", MAX_LEVELS)
    assert len(evaluated(["event.id"] * MAX_EXPRESSIONS)) == MAX_EXPRESSIONS
    for node in (nested([], MAX_LEVELS), ["event.id"] * (MAX_EXPRESSIONS + 1)):
        with pytest.raises(RefusedMappingError, match="at most"):
            compile_mapping(node, EVENT_SCOPE)


def test_levels_of_the_mapping_and_of_what_it_takes_count_together() -> None:
    event = {"data": nested(1, 60)}
    assert evaluated(nested("event.data", 4), event) == nested(1, 64)
    with pytest.raises(MappingError, match="too many levels"):
        evaluated(nested("event.data", 5), event)


def test_a_mapping_that_takes_a_large_event_many_times_is_refused() -> None:
    event = {"data": list(range(60_000))}
    assert len(evaluated(["event.data"] * 4, event)) == 4
    with pytest.raises(MappingError, match="too large for what is done with it"):
        evaluated(["event.data"] * 100, event)
