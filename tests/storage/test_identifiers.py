from __future__ import annotations

from uuid import RFC_4122, UUID, uuid4

import pytest

from storage.identifiers import RunIds, hex_digits, hyphenated, parse


def test_an_id_is_a_uuid_of_version_7_that_begins_with_its_millisecond() -> None:
    made = UUID(RunIds().take(1_764_500_000_123))
    assert (made.version, made.variant) == (7, RFC_4122)
    assert made.int >> 80 == 1_764_500_000_123


def test_ids_of_one_millisecond_rise_also_beyond_what_its_counter_holds() -> None:
    source = RunIds()
    made = [source.take(5) for _ in range(10_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_rise_also_where_the_clock_goes_back() -> None:
    source = RunIds()
    made = [source.take(millisecond) for millisecond in (7, 5, 6, 7, 8)]
    assert made == sorted(made)


def test_two_sources_never_give_the_same_id() -> None:
    assert len({source.take(5) for source in [RunIds() for _ in range(100)]}) == 100


def test_the_usual_form_has_lower_case_and_hyphens() -> None:
    some = uuid4()
    assert hyphenated(some.hex) == str(some)


def test_what_either_driver_gives_is_read_as_hex_digits() -> None:
    some = uuid4()
    assert hex_digits(some) == hex_digits(some.hex) == some.hex


@pytest.mark.parametrize("text", ["", "x", "\x00", "é" * 36, "0" * 31, "urn:uuid:"])
def test_what_is_no_uuid_is_none(text: str) -> None:
    assert parse(text) is None
