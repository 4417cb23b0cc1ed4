import json
from dataclasses import replace

from tests.tools.bench.test_report import GOOD, result, rounds, streamed
from tools.bench.document import document, machine
from tools.bench.execution import ON
from tools.bench.load import Carried
from tools.bench.report import Played


def test_the_document_is_json_with_the_rounds_and_what_follows_from_them() -> None:
    told = json.loads(json.dumps(document([GOOD])))
    assert (told["date"], told["runs_held"]) == (GOOD.date, 1)
    [run] = told["runs"]
    assert run["first_answer_seconds"] == {"start in a new folder": 1.0}
    assert run["memory"] == {"events": 100_000, "peak_bytes": 90_000_000, "fork_bytes": 30_000_000}
    [played] = run["played"]
    assert played["median_per_second"] == {"gatehouse": 3000.0, "fastapi": 200.0, "limit": 4000.0}
    assert [(each["of_medians"], each["holds"]) for each in played["ratios"]] == [(15.0, True), (0.75, True)]
    assert len(played["rounds"]["limit"]) == 3


def test_every_figure_of_a_round_names_its_unit() -> None:
    carried = Carried(during=9.0, after=18.0, server_peak=140, executor_peak=None)
    measured = [replace(rounds(80)[0], carried=carried, began_at=5)]
    played = Played(name="execution", work="w", note="n", budgets=(), rounds={ON: measured})
    [told] = document([replace(GOOD, played=[played])])["runs"][0]["played"][0]["rounds"][ON]
    assert told == {
        "began_at_epoch_ms": 5,
        "seconds": 5.0,
        "count": 400,
        "per_second": 80.0,
        "p50_ms": 6.0,
        "p99_ms": 20.0,
        "longest_ms": 40.0,
        "since_written_p50_ms": None,
        "since_written_p99_ms": None,
        "cpu_seconds": 0.08,
        "load_cpu_seconds": 0.4,
        "carried": {
            "runs_per_second_during": 9.0,
            "runs_per_second_after": 18.0,
            "server_peak_bytes": 140,
            "executor_peak_bytes": None,
        },
    }


def test_delays_since_the_writing_are_there_where_they_are_known() -> None:
    [told] = document([streamed((20.0, 44.0))])["runs"][0]["played"][0]["rounds"]["fastapi"]
    assert (told["since_written_p50_ms"], told["since_written_p99_ms"]) == (25.0, 49.0)


def test_each_promise_has_its_figure_of_every_run_and_in_how_many_it_was_held() -> None:
    told = document([GOOD, result(rounds(1000, 1000, 1000)), replace(GOOD, memory=None)])
    assert told["runs_held"] == 2
    assert told["promises"] == [
        {
            "what": "admit: gatehouse/fastapi",
            "at_least": 7,
            "unit": "ratio",
            "values": [15.0, 5.0, 15.0],
            "held_in_runs": 2,
        },
        {
            "what": "admit: gatehouse/limit",
            "at_least": 0.5,
            "unit": "ratio",
            "values": [0.75, 0.25, 0.75],
            "held_in_runs": 2,
        },
        {
            "what": "gatehouse, start in a new folder",
            "at_most": 2.0,
            "unit": "s",
            "values": [1.0, 1.0, 1.0],
            "held_in_runs": 3,
        },
        {"what": "gatehouse, peak memory", "at_most": 150.0, "unit": "MB", "values": [90.0, 90.0], "held_in_runs": 2},
    ]
    assert [len(run["failures"]) for run in told["runs"]] == [0, 2, 0]


def test_the_machine_is_told() -> None:
    assert machine().keys() == {"cores", "system", "python"}
