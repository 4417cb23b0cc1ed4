import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from tools.bench.admission import Admission
from tools.bench.execution import OFF, ON, Execution
from tools.bench.install import Live
from tools.bench.load import Carried, Round
from tools.bench.report import Memory, Played, Result, document, failures, ratios, show


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
        memory=Memory(events=100_000, peak_bytes=peak),
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
    assert failures(streamed((20.0, 30.0))) == ["live: fastapi/gatehouse, p99 is 0.75, its floor 1"]


def test_delays_since_the_writing_are_told_and_events_are_called_so() -> None:
    text = shown(streamed((20.0, 44.0)))
    assert "gatehouse, from the writing of a line to a reader: p50 15.0 ms, p99 45.0 ms" in text
    assert "events/s" in text
    assert "CPU µs/event" in text
    assert "0.34" in text
    assert "from the writing" not in shown(GOOD)


@pytest.mark.parametrize(("peak", "told"), [(120_000_000, "120 MB"), (None, "unknown")])
def test_what_was_carried_out_is_told_with_the_memory_that_it_took(peak: int | None, told: str) -> None:
    carried = [
        Carried(during=during, after=2 * during, server_peak=140_000_000, executor_peak=peak) for during in (9, 7, 30)
    ]
    measured = [replace(each, carried=more) for each, more in zip(rounds(80, 80, 90), carried, strict=True)]
    played = Played(
        name="execution",
        work="w",
        note="n",
        budgets=Execution.budgets,
        rounds={ON: measured, OFF: rounds(100, 100, 100)},
    )
    text = shown(replace(GOOD, played=[played]))
    assert f"{ON}, runs carried out: 9 a second during the rounds, 18 after them" in text
    assert f"{ON}, peak memory: 140 MB the server, {told} the executor" in text
    assert "0.80" in text
    assert "carried out" not in shown(GOOD)


def test_what_reaches_every_floor_has_no_failure() -> None:
    assert failures(GOOD) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (
            result(rounds(1000, 1000, 1000)),
            ["admit: gatehouse/fastapi is 5.00, its floor 7", "admit: gatehouse/limit is 0.25"],
        ),
        (result(rounds(3000, 4000, 1000), first=2.5), ["2.50 s to start in a new folder"]),
        (result(rounds(3000, 4000, 1000), peak=160_000_000), ["160 MB, 150 MB are allowed"]),
    ],
)
def test_each_budget_that_is_missed_is_a_failure(bad: Result, words: list[str]) -> None:
    lines = failures(bad)
    assert len(lines) == len(words)
    assert all(word in line for word, line in zip(words, lines, strict=True))


def test_memory_that_the_system_does_not_tell_is_no_failure() -> None:
    assert failures(result(rounds(3000, 4000, 1000), peak=None)) == []


def test_the_document_is_json_with_the_rounds_and_what_follows_from_them() -> None:
    [told] = json.loads(json.dumps(document(GOOD)))["played"]
    assert told["rates"] == {"gatehouse": 3000.0, "fastapi": 200.0, "limit": 4000.0}
    assert [each["holds"] for each in told["ratios"]] == [True, True]
    assert len(told["rounds"]["limit"]) == 3


def shown(measured: Result) -> str:
    output = io.StringIO()
    show(measured, Console(file=output, width=120))
    return output.getvalue()


def test_the_tables_show_every_server_and_ratio() -> None:
    text = shown(GOOD)
    assert all(
        word in text
        for word in ("gatehouse/fastapi", "gatehouse/limit", "15.00", "0.75", "3,000", "200", "A note.", "90 MB")
    )


def test_a_load_that_may_have_measured_itself_is_told() -> None:
    assert "no time left" not in shown(GOOD)
    assert "the load of gatehouse had no time left" in shown(result(rounds(3000, 4000, 1000, load_cpu=4.5)))


def test_a_machine_that_was_busy_is_told() -> None:
    assert "other work was running" not in shown(GOOD)
    assert "load average 3.5" in shown(result(rounds(3000, 4000, 1000), load_average=3.5))
