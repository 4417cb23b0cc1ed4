from __future__ import annotations

import pytest

from handlers.gateway.times import rfc3339


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (1_788_048_001_482, "2026-08-30T00:00:01.482Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_a_time_has_four_digits_of_a_year_and_three_of_a_fraction(milliseconds: int, text: str) -> None:
    assert rfc3339(milliseconds) == text


def test_what_is_not_known_stays_unknown() -> None:
    assert rfc3339(None) is None
