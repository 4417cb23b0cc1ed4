from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st

from handlers.coordinator.workflows.values import (
    MAX_LEVELS,
    MAX_NUMBER,
    MAX_TEXT_BYTES,
    UnfitValueError,
    canonical_text,
    plain,
    weigh,
)
from tests.support.effort import tries

SEED = 20261130

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_NUMBER, MAX_NUMBER)
    | st.floats(-1e15, 1e15)
    | st.floats(1e-9, 1e-3)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=12)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@seed(SEED)
@settings(max_examples=tries(500, elsewhere=150), database=None, deadline=None)
@given(values)
@example({"\U0001f600": 1, "\ufb33": 2})
@example([1e-6, 9.999e-6, 1e-7, 0.1, 123456.789, 5e-324])
def test_the_text_of_a_plain_value_is_that_of_rfc_8785(value: Any) -> None:
    assert canonical_text(plain(value)).encode() == rfc8785.dumps(value)


@seed(SEED)
@settings(max_examples=tries(200, elsewhere=80), database=None, deadline=None)
@given(values)
def test_what_is_plain_stays_as_it_is(value: Any) -> None:
    once = plain(value)
    assert repr(plain(once)) == repr(once)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5.0, 5),
        (-0.0, 0),
        (float(MAX_NUMBER), MAX_NUMBER),
        (datetime(2026, 1, 2, 3, 4, 5, 999_999, UTC), "2026-01-02T03:04:05.999Z"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:04:05.000Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_numbers_and_times_have_one_spelling(value: Any, expected: Any) -> None:
    assert repr(plain([value])) == repr([expected])


@pytest.mark.parametrize(
    "value",
    [
        MAX_NUMBER + 1,
        -MAX_NUMBER - 1,
        float(2**53),
        1e300,
        float("nan"),
        float("inf"),
        float("-inf"),
        b"bytes",
        timedelta(hours=1),
        {1: "a"},
        (1, 2),
        object(),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        nested(MAX_LEVELS + 1),
    ],
)
def test_what_has_no_bounded_json_form_is_refused(value: Any) -> None:
    with pytest.raises(UnfitValueError):
        plain({"a": value} if not isinstance(value, list) else value)


def test_a_value_may_have_as_many_levels_as_a_body() -> None:
    assert plain(nested(MAX_LEVELS)) == nested(MAX_LEVELS)
    assert weigh(nested(MAX_LEVELS))[0] == MAX_LEVELS + 1


def test_a_text_may_have_as_many_bytes_as_an_event() -> None:
    assert len(canonical_text("é" * (MAX_TEXT_BYTES // 2 - 1))) < MAX_TEXT_BYTES
    with pytest.raises(UnfitValueError):
        canonical_text("é" * (MAX_TEXT_BYTES // 2))


def test_weight_counts_what_is_copied_and_the_longest_container() -> None:
    assert weigh(5) == (1, 0)
    assert weigh("x" * 640) == (11, 0)
    assert weigh([1, 2, 3]) == (4, 3)
    assert weigh({"a": [1] * 9, "b": None}) == (16, 9)


def test_weighing_stops_at_the_levels_that_a_value_may_have() -> None:
    with pytest.raises(UnfitValueError):
        weigh(nested(100_000))
