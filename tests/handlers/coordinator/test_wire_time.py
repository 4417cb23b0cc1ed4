from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from handlers.coordinator.wire_time import parse

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2026-08-30T00:00:01Z", 1_788_048_001 * SECOND),
        ("2026-08-30T00:00:01.5Z", 1_788_048_001 * SECOND + SECOND // 2),
        ("2026-08-30T00:00:01.05Z", 1_788_048_001 * SECOND + SECOND // 20),
        ("2026-08-30T00:00:01.123456789Z", 1_788_048_001 * SECOND + 123_456_789),
        ("2024-02-29T23:59:59Z", 1_709_251_199 * SECOND),
        ("0001-01-01T00:00:00Z", -62_135_596_800 * SECOND),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_800 * SECOND - 1),
    ],
)
def test_a_time_is_its_exact_number_of_nanoseconds(text: str, nanoseconds: int) -> None:
    assert parse(text, 9) == nanoseconds


def test_any_second_of_nine_thousand_years_is_read_as_datetime_reads_it() -> None:
    chance = random.Random(3339)
    for _ in range(5_000):
        seconds = chance.randrange(-62_135_596_800, 253_402_300_800)
        text = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat() + "Z"
        assert parse(text, 9) == seconds * SECOND


@pytest.mark.parametrize(
    "text",
    [
        "", "2026-08-30", "2026-08-30T00:00:01", "2026-08-30t00:00:01Z", "2026-08-30T00:00:01z", "2026-08-30 00:00:01Z",
        "2026-08-30T00:00:01+00:00", "2026-08-30T00:00:01-00:00", "2026-08-30T00:00:01+24:00", "2026-08-30T00:00Z",
        "2026-08-30T00:00:01.Z", "2026-08-30T00:00:01.0Z", "2026-08-30T00:00:01.10Z", "2026-08-30T00:00:01.000Z",
        "2026-08-30T00:00:01,5Z", "2026-08-30T00:00:01.1234567891Z", "2026-08-30T00:00:01.123456789012Z",
        "2026-08-30T00:00:60Z", "2016-12-31T23:59:60Z", "2026-08-30T00:60:00Z", "2026-08-30T24:00:00Z",
        "2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-08-00T00:00:00Z", "2026-08-32T00:00:00Z",
        "0000-01-01T00:00:00Z", "-001-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "26-08-30T00:00:01Z",
        " 2026-08-30T00:00:01Z", "2026-08-30T00:00:01Z ", "2026-08-30T00:00:01Z\n", "2026-08-30T00:00:01ZZ",
        "2026-8-30T00:00:01Z", "20260830T000001Z", "2026-W35-7T00:00:01Z", "2026-242T00:00:01Z", "1788048001",
        "2026-08-30T00:00:1_Z", "2026-08-30T00:00:+1Z", "2026-08-30T00:00: 1Z", "\u0662026-08-30T00:00:01Z",
        "2026-08-30T00:00:0\u0661Z", "2026-08-30T00:00:01.\u0665Z",
    ],
)  # fmt: skip
def test_any_other_form_or_no_day_of_the_calendar_is_refused(text: str) -> None:
    assert parse(text, 9) is None


def test_the_fraction_has_no_more_digits_than_asked_for() -> None:
    assert parse("2026-08-30T00:00:01.123Z", 3) == 1_788_048_001_123_000_000
    assert parse("2026-08-30T00:00:01.1234Z", 3) is None
    assert parse("2026-08-30T00:00:01.1234Z", 4) == 1_788_048_001_123_400_000
    assert parse("2026-08-30T00:00:01.12Z", 3) == 1_788_048_001_120_000_000
