from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from jsonschema_rs import Draft202012Validator

from handlers.gateway.times import epoch_milliseconds, epoch_milliseconds_of_each, rfc3339, usual_moments

NOON = 1_776_254_400_000
LAST = 253_402_300_799_999
FIRST = -62_135_596_800_000

form = Draft202012Validator({"format": "date-time"}, validate_formats=True)


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_700_000_000_999, "2023-11-14T22:13:20.999Z"),
        (1_709_210_096_040, "2024-02-29T12:34:56.040Z"),
        (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        (FIRST, "0001-01-01T00:00:00.000Z"),
        (LAST, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_has_three_fraction_digits_and_z(milliseconds: int, expected: str) -> None:
    assert rfc3339(milliseconds) == expected
    assert epoch_milliseconds(expected) == milliseconds


def test_no_time_stays_none() -> None:
    assert rfc3339(None) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-04-15T12:00:00Z", NOON),
        ("2026-04-15t12:00:00z", NOON),
        ("2026-04-15T12:00:00.5Z", NOON + 500),
        ("2026-04-15T12:00:00.05Z", NOON + 50),
        ("2026-04-15T12:00:00.123Z", NOON + 123),
        ("2026-04-15T12:00:00.123456Z", NOON + 123),
        ("2026-04-15T12:00:00.999999999Z", NOON + 999),
        ("2026-04-15T12:00:00.9999999999Z", NOON + 999),
        (f"2026-04-15T12:00:00.{'9' * 5000}Z", NOON + 999),
        ("2026-04-15T12:00:00.5z", NOON + 500),
        ("2026-04-15T14:00:00+02:00", NOON),
        ("2026-04-15T14:00:00.25+02:00", NOON + 250),
        ("2026-04-15T06:30:00-05:30", NOON),
        ("2026-04-16T11:59:00+23:59", NOON),
        ("2026-04-14T12:01:00-23:59", NOON),
        ("2026-04-15T12:00:00-00:00", NOON),
        ("2026-04-15T12:00:00+00:00", NOON),
        ("2026-04-15T23:59:60Z", NOON + 43_200_000),
        ("2026-04-15T23:59:60.5Z", NOON + 43_200_500),
        ("2026-04-15T22:59:60-01:00", NOON + 43_200_000),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("0001-01-01T00:00:00Z", FIRST),
        ("0001-01-01T23:59:00+23:59", FIRST),
        ("9999-12-31T23:59:59.9999Z", LAST),
        ("9999-12-31T00:00:59.999-23:59", LAST),
    ],
)
def test_a_time_is_read_in_each_spelling_that_the_schema_takes(text: str, expected: int) -> None:
    assert form.is_valid(text)
    assert epoch_milliseconds(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0000-01-01T00:00:00Z",
        "0000-02-29T00:00:00.5Z",
        "0001-01-01T00:00:00+00:01",
        "0001-01-01T23:58:59.999+23:59",
        "9999-12-31T23:59:60Z",
        "9999-12-31T23:59:60.0Z",
        "9999-12-31T23:59:59-00:01",
        "-026-04-15T12:00:00Z",
    ],
)
def test_a_time_that_the_schema_takes_and_no_answer_could_spell_is_none(text: str) -> None:
    assert form.is_valid(text)
    assert epoch_milliseconds(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-04-15",
        "2026-04-15T12:00Z",
        "2026-04-15T12:00:00",
        "2026-04-15 12:00:00Z",
        "2026-04-15T12:00:00.Z",
        "2026-04-15T12:00:00,5Z",
        "2026-04-15T12:00:00.-1Z",
        "2026-04-15T12:00:00.+1Z",
        "2026-04-15T12:00:00.1_0Z",
        "2026-04-15T12:00:00. 1Z",
        "2026-04-15T12:00:00.５Z",
        "2026-04-15T12:00:0０Z",
        "2026-04-15T24:00:00Z",
        "2026-04-15T12:60:00Z",
        "2026-04-15T12:00:61Z",
        "2026-04-15T12:00:00+24:00",
        "2026-04-15T12:00:00+00:60",
        "2026-04-15T12:00:00+0100",
        "2026-04-15T12:00:00+01",
        "2026-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-W16-3T12:00:00Z",
        "2026-04-15T120000.5Z",
        "10000-01-01T00:00:00Z",
        " 2026-04-15T12:00:00Z",
        "2026-04-15T12:00:00Z\n",
    ],
)
def test_other_text_is_none(text: str) -> None:
    assert not form.is_valid(text)
    assert epoch_milliseconds(text) is None


def test_times_of_other_zones_and_days_are_read_as_the_standard_library_reads_them() -> None:
    for hours in range(-20_000_000, 20_000_000, 99_991):
        moment = datetime(2026, 1, 1, 1, 2, 3, 456_000, UTC) + timedelta(hours=hours / 300)
        moment = moment.replace(microsecond=456_000)
        expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        assert epoch_milliseconds(moment.isoformat()) == expected
        assert epoch_milliseconds(moment.isoformat().replace("+00:00", "Z")) == expected


USUAL = ["2026-04-15T12:00:00Z", "2026-04-15T12:00:00.5Z", "1969-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z"]


def test_times_that_are_all_spelled_as_usual_are_read_at_once_and_alike() -> None:
    assert usual_moments([]) == []
    assert usual_moments(USUAL) == [datetime.fromisoformat(text) for text in USUAL]
    assert epoch_milliseconds_of_each(USUAL) == [NOON, NOON + 500, -1, FIRST]


@pytest.mark.parametrize(
    "text",
    [
        "2026-04-15t12:00:00Z",
        "2026-04-15 12:00:00Z",
        "2026-04-15T12:00:00z",
        "2026-04-15T14:00:00+02:00",
        "2026-04-15T12:00:00",
        "2026-04-15T12:00:00.1234567Z",
        "2026-04-15T23:59:60Z",
        "9999-12-31T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "yesterday",
        "",
    ],
)
def test_one_time_that_is_spelled_otherwise_has_each_read_by_itself(text: str) -> None:
    assert usual_moments([*USUAL, text]) is None
    assert epoch_milliseconds_of_each([*USUAL, text]) == [*map(epoch_milliseconds, USUAL), epoch_milliseconds(text)]
