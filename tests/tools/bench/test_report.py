from dataclasses import replace

import pytest

from tools.bench.admission import Admission
from tools.bench.install import Live
from tools.bench.load import Round
from tools.bench.report import Memory, Played, Promise, Result, failures, over_runs, ratios, runs_held


def rounds(*rates: int, load_cpu: float = 0.4) -> list[Round]:
    return [
        Round(requests=rate * 5, seconds=5.0, p50=6.0, p99=20.0, longest=40.0, cpu=rate / 1000, load_cpu=load_cpu)
        for rate in rates
    ]


def result(
    gatehouse: list[Round], *, first: float = 1.0, peak: int | None = 90_000_000, load_average: float = 0.1
) -> Result:
    measured = {"gatehouse": gatehouse, "fastapi": rounds(200, 250, 100), "limit": rounds(4000, 5000, 2000)}
    return Result(
        date="2026-04-15T12:00:00Z",
        played=[Played(name="admit", work="admitEvent", note="A note.", budgets=Admission.budgets, rounds=measured)],
        first_answer={"start in a new folder": first},
        memory=Memory(events=100_000, peak_bytes=peak, fork_bytes=30_000_000),
        load_average=load_average,
    )


GOOD = result(rounds(3000, 4000, 1000))


def test_a_ratio_is_that_of_the_medians_with_the_least_and_greatest_of_a_round() -> None:
    fastapi, limit = ratios(GOOD.played[0])
    assert (fastapi.value, fastapi.least, fastapi.greatest) == (15.0, 10.0, 16.0)
    assert (limit.value, limit.least, limit.greatest) == (0.75, 0.5, 0.8)


def streamed(fastapi: tuple[float, float]) -> Result:
    """Rounds of a stream in which Gatehouse's delays are 10 and 40 ms, with those of FastAPI."""
    delays = {"gatehouse": (10.0, 40.0), "fastapi": fastapi}
    measured = {
        name: [
            Round(requests=1, seconds=1.0, p50=p50, p99=p99, longest=99.0, cpu=3.4e-7, since_written=(p50 + 5, p99 + 5))
        ]
        for name, (p50, p99) in delays.items()
    }
    played = Played(name="live", work="w", note="n", budgets=Live.budgets, rounds=measured, unit="event")
    return replace(GOOD, played=[played])


def test_a_ratio_of_delays_is_how_many_times_as_long_the_other_takes() -> None:
    assert [each.value for each in ratios(streamed((20.0, 44.0)).played[0])] == [2.0, 1.1]
    assert failures(streamed((10.0, 40.0))) == []
    assert failures(streamed((20.0, 30.0))) == ["live: fastapi/gatehouse, p99: 0.75 (at least 1)"]


def test_what_reaches_every_floor_has_no_failure() -> None:
    assert failures(GOOD) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (
            result(rounds(1000, 1000, 1000)),
            ["admit: gatehouse/fastapi: 5.00 (at least 7)", "admit: gatehouse/limit: 0.25 (at least 0.5)"],
        ),
        (result(rounds(3000, 4000, 1000), first=2.5), ["gatehouse, start in a new folder: 2.50 s (at most 2 s)"]),
        (result(rounds(3000, 4000, 1000), peak=160_000_000), ["gatehouse, peak memory: 160.00 MB (at most 150 MB)"]),
    ],
)
def test_each_budget_that_is_missed_is_a_failure(bad: Result, words: list[str]) -> None:
    assert failures(bad) == words


def test_memory_that_the_system_does_not_tell_is_no_failure() -> None:
    assert failures(result(rounds(3000, 4000, 1000), peak=None)) == []


@pytest.mark.parametrize(("at_most", "holds"), [(False, [False, True, True]), (True, [True, True, False])])
def test_a_floor_is_held_from_itself_on_and_a_limit_up_to_itself(at_most: bool, holds: list[bool]) -> None:
    promised = [Promise(what="w", value=value, bound=2, at_most=at_most) for value in (1.9, 2, 2.1)]
    assert [each.holds for each in promised] == holds


def test_over_runs_a_promise_is_gathered_by_what_it_is_about() -> None:
    bad = result(rounds(1000, 1000, 1000), peak=None)
    gathered = over_runs([GOOD, bad])
    assert [each.value for each in gathered["admit: gatehouse/fastapi"]] == [15.0, 5.0]
    assert [each.value for each in gathered["gatehouse, peak memory"]] == [90.0]
    assert runs_held([GOOD, bad, GOOD]) == 2
