import math
from collections.abc import Iterator

import pytest

from tools.bench import overload
from tools.bench.overload import PRESSURE_SECONDS, Answer, judge, read, recovery
from tools.bench.servers import BenchError

RATE = 100.0


def answers(*, took: float = 5.0, retry_after: int = 1) -> Iterator[Answer]:
    """Twice RATE, of which every second one is refused, and then a calm time."""
    for number in range(int(PRESSURE_SECONDS * 2 * RATE)):
        at = number / (2 * RATE)
        yield Answer(at, took, 204, 0) if number % 2 else Answer(at, 0.5, 503, retry_after)
    for number in range(100):
        yield Answer(PRESSURE_SECONDS + number / 100, 1.0, 204, 0)


def stored(told: list[Answer]) -> int:
    return sum(each.status == 204 for each in told)


def test_what_keeps_every_promise_has_no_failures() -> None:
    told = list(answers())
    outcome = judge(told, unloaded_p50=1.0, capacity=RATE, gained=stored(told))
    assert outcome.failures() == []
    assert outcome.accepted == pytest.approx(RATE)
    assert outcome.refused == pytest.approx(RATE)
    assert (outcome.accepted_p99, outcome.refused_p50) == (5.0, 0.5)
    assert outcome.document()["recovery"] == pytest.approx(0.001, abs=1e-6)
    assert outcome.table().row_count == 11


@pytest.mark.parametrize(
    ("changes", "lost", "word"),
    [({"took": 12.0}, 0, "99th"), ({"retry_after": 0}, 0, "Retry-After"), ({}, 1, "not stored")],
)
def test_each_promise_that_is_not_held_is_named(changes: dict[str, int], lost: int, word: str) -> None:
    told = list(answers(**changes))
    outcome = judge(told, unloaded_p50=1.0, capacity=RATE, gained=stored(told) - lost)
    (failure,) = outcome.failures()
    assert word in failure


def test_a_server_that_refuses_nothing_or_does_not_recover_is_named() -> None:
    told = [each._replace(status=204) for each in answers() if each.at < PRESSURE_SECONDS]
    outcome = judge(told, unloaded_p50=1.0, capacity=RATE, gained=stored(told))
    assert ["nothing" in each or "recovered" in each for each in outcome.failures()] == [True, True]
    assert outcome.document()["recovery"] is None


def test_a_load_that_is_too_small_or_that_fails_proves_nothing() -> None:
    told = list(answers())
    with pytest.raises(BenchError, match="the load was"):
        judge(told, unloaded_p50=1.0, capacity=2 * RATE, gained=stored(told))
    with pytest.raises(BenchError, match="401"):
        judge([*told, Answer(1.0, 1.0, 401, 0)], unloaded_p50=1.0, capacity=RATE, gained=stored(told))


def test_recovered_is_a_server_of_which_some_answers_in_a_row_are_good() -> None:
    late = [Answer(PRESSURE_SECONDS + number / 100, 30.0, 204, 0) for number in range(10)]
    good = [Answer(PRESSURE_SECONDS + 0.1 + number / 100, 1.0, 204, 0) for number in range(5)]
    assert recovery(late, 2.0) == math.inf
    assert recovery([*late, *good], 2.0) == pytest.approx(0.11)
    assert recovery([each._replace(status=503) for each in good], 2.0) == math.inf


def test_what_the_load_tells_is_read_with_times_from_its_first_request_on() -> None:
    assert read(["2000000 1500 204 0", "1000000 250 503 1"]) == [Answer(1.0, 1.5, 204, 0), Answer(0.0, 0.25, 503, 1)]
    assert read([]) == []
    assert overload.SCRIPT.is_file()
