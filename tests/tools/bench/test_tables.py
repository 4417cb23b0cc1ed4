import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.tools.bench.test_report import GOOD, result, rounds, streamed
from tools.bench.execution import OFF, ON, Execution
from tools.bench.load import Carried
from tools.bench.report import Played, Result
from tools.bench.tables import show, show_runs


def shown(measured: Result) -> str:
    output = io.StringIO()
    show(measured, Console(file=output, width=120))
    return output.getvalue()


def test_the_tables_show_every_server_and_ratio() -> None:
    text = shown(GOOD)
    assert all(
        word in text
        for word in ("gatehouse/fastapi", "gatehouse/limit", "15.00", "0.75", "3,000", "200", "A note.", "90.00 MB")
    )


def test_the_memory_of_the_process_that_commits_is_told_apart() -> None:
    assert "the process that commits, beside what it shares: 30 MB" in shown(GOOD)
    assert GOOD.memory is not None
    unknown = replace(GOOD, memory=replace(GOOD.memory, fork_bytes=None))
    assert "the process that commits, beside what it shares: unknown" in shown(unknown)


def test_a_load_that_may_have_measured_itself_is_told() -> None:
    assert "no time left" not in shown(GOOD)
    assert "the load of gatehouse had no time left" in shown(result(rounds(3000, 4000, 1000, load_cpu=4.5)))


def test_a_machine_that_was_busy_is_told() -> None:
    assert "other work was running" not in shown(GOOD)
    assert "load average 3.5" in shown(result(rounds(3000, 4000, 1000), load_average=3.5))


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


def over(*results: Result) -> str:
    output = io.StringIO()
    show_runs(results, Console(file=output, width=120))
    return output.getvalue()


def test_over_runs_each_floor_has_in_how_many_it_was_held() -> None:
    text = over(GOOD, GOOD, GOOD)
    assert "3 of 3" in text
    assert text.endswith("floors held in 3 runs of 3\n")


def test_a_floor_that_was_not_held_in_each_run_shows_its_worst() -> None:
    text = over(GOOD, result(rounds(1000, 1000, 1000)))
    [floor] = [line for line in text.splitlines() if "gatehouse/fastapi" in line]
    assert all(word in floor for word in ("at least 7", "5.00", "15.00", "1 of 2"))
    assert text.endswith("floors held in 1 runs of 2\n")
