from __future__ import annotations

import pytest

from handlers.coordinator.execution.back_off import back_off


@pytest.mark.parametrize(
    ("tried", "whole"),
    [(0, 1_000), (1, 2_000), (2, 4_000), (5, 32_000), (6, 60_000), (7, 60_000), (5_000, 60_000)],
)
def test_it_doubles_from_a_second_to_a_minute_and_half_of_it_is_chance(tried: int, whole: int) -> None:
    assert back_off(tried, None, lambda: 0.0) == whole // 2
    assert back_off(tried, None, lambda: 1.0) == whole


@pytest.mark.parametrize(
    ("asked", "waited"),
    [(0, 1_000), (999, 1_000), (1_001, 1_001), (3_600_000, 3_600_000), (10**12, 3_600_000)],
)
def test_what_the_receiver_asks_for_is_waited_for_too_up_to_an_hour(asked: int, waited: int) -> None:
    assert back_off(0, asked, lambda: 1.0) == waited
